"""A drafter on a machine whose clock says something else."""

import time
from functools import partial

import pytest

from ssd.core.rounds import GrowthSpan
from ssd.engine.device_span import DeviceSpan
from ssd.engine.loading import LoadedModel
from ssd.wire.round_codec import decode_round, decode_spans
from tests.services.cluster import Cluster, until
from verifier_service.service import VerifierService

AHEAD_S = 3600


class AnHourAhead:
    """The clock of a drafter that was started earlier than we were."""

    @staticmethod
    def monotonic() -> float:
        return time.monotonic() + AHEAD_S

    @staticmethod
    def monotonic_ns() -> int:
        return time.monotonic_ns() + AHEAD_S * 10**9


async def test_growth_steps_come_on_the_verifiers_clock(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked = partial(DeviceSpan, clock=AnHourAhead.monotonic)
    monkeypatch.setattr("drafter_service.machine.DeviceSpan", worked)
    monkeypatch.setattr("drafter_service.servicer.time", AnHourAhead)
    verifier, _ = await cluster.pair(target, draft)
    service = verifier.service
    assert isinstance(service, VerifierService)

    async def is_known() -> bool:
        return any(each._offset_ns for each in service._links._links.values())

    await until(is_known)
    offset_ns = service._links.clock_offset_ns()
    assert offset_ns == pytest.approx(AHEAD_S * 1e9, abs=1e8)
    reply = await cluster.generate(
        [1, 2, 3], mode="sd", max_tokens=60, ignore_eos=True, include_rounds=True
    )
    rounds = [decode_round(each) for each in reply.complete.rounds]
    growth: tuple[GrowthSpan, ...] = decode_spans(reply.complete.growth)
    assert growth
    for span in growth:
        assert rounds[0].launch_ns - 10**9 < span.start_ns < span.end_ns
        assert span.end_ns < rounds[-1].end_ns + 10**8
