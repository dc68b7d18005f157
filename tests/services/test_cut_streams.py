"""After a cut between living peers sessions are resumed, same epoch; a lease bounds the wait."""

import asyncio
from typing import Any

from ssd.engine.loading import LoadedModel
from ssd.v1 import common_pb2
from tests.models.scripted_model import ScriptedModel
from tests.services.cluster import Cluster, Hosted, read_rest, read_some, until
from tests.services.test_several_coordinators import Coordinator, Order, slow_target
from tests.services.test_strange_peers import opening
from verifier_service.service import VerifierService

PROMPT = (1, 2, 3)


def cut_serve(verifier: Hosted) -> None:
    """End all coordinators' streams to a verifier that lives on."""
    assert isinstance(verifier.service, VerifierService)
    for stream in verifier.service.servicer._streams.values():
        stream.outbox.close()


async def epochs(cluster: Cluster) -> list[int]:
    return [each.epoch for each in (await cluster.status()).sessions]


async def test_a_cut_stream_is_resumed_with_the_same_epoch(
    cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel
) -> None:
    """Three times in one text, in each mode; what was on its way is said again."""
    verifier, _ = await cluster.pair(slow_target(script), table_draft)
    calls = {
        mode: cluster.call(PROMPT, mode=mode, temperature=0.0, max_tokens=400)
        for mode in ("ssd", "sd", "ar")
    }
    begun = {mode: list(await read_some(call, 10)) for mode, call in calls.items()}
    before = await epochs(cluster)
    for _ in range(3):
        cut_serve(verifier)
        for mode, call in calls.items():
            begun[mode] += await read_some(call, 10)
        assert await epochs(cluster) == before
    for mode, call in calls.items():
        rest = await read_rest(call)
        assert (*begun[mode], *rest.token_ids) == script.continue_text(PROMPT, max_len=403)
    await cluster.until_freed()


async def test_with_a_spare_verifier_a_cut_is_still_resumed_where_the_kv_is(
    cluster: Cluster, script: ScriptedModel
) -> None:
    await cluster.coordinate(timeouts={"resume_s": 20.0})
    first = await cluster.verify(slow_target(script))
    call = cluster.call(PROMPT, temperature=0.0, max_tokens=300)
    begun = await read_some(call, 10)
    spare = await cluster.verify(slow_target(script), name="verifier-1")
    cut_serve(first)
    rest = await read_rest(call)
    assert (*begun, *rest.token_ids) == script.continue_text(PROMPT, max_len=303)
    assert spare.verifier.num_rounds == 0


async def test_kv_waits_for_its_coordinator_and_for_no_longer_than_the_lease(
    cluster: Cluster, script: ScriptedModel
) -> None:
    await cluster.coordinate(timeouts={"lease_s": 1.0})
    verifier = await cluster.verify(slow_target(script))
    async with Coordinator(verifier.address, "one") as one:
        await one.say(Order(open=opening("a", max_len=400)))
        await one.until(lambda: one.tokens)
    rounds = await until_still(verifier)
    assert await verifier.num_reserved_slots() > 0
    async with Coordinator(verifier.address, "one") as again:
        resume = common_pb2.Resume(session_id="a", epoch=1, have_len=3)
        await again.say(Order(resume=resume))
        await again.until(lambda: again.finished)
        assert tuple(again.tokens["a"]) == script.continue_text(PROMPT, max_len=400)
        await again.say(Order(open=opening("b", max_len=400)))
        await again.until(lambda: "b" in again.tokens)
    assert verifier.verifier.num_rounds > rounds
    await cluster.until_freed()


async def test_a_coordinator_that_goes_silent_loses_its_kv_after_the_lease(
    cluster: Cluster, script: ScriptedModel
) -> None:
    """Its connection stands, and it is stopped, or its machine is gone."""
    await cluster.coordinate(timeouts={"lease_s": 1.0})
    verifier = await cluster.verify(slow_target(script))
    async with Coordinator(verifier.address, "one", is_silent=True) as silent:
        await silent.say(Order(open=opening("a", max_len=500)))
        await silent.until(lambda: silent.tokens)
        await cluster.until_freed()
        assert not silent.finished


async def until_still(verifier: Hosted) -> int:
    """Wait until no round runs any more; how many did."""
    seen: list[Any] = []

    async def is_still() -> bool:
        seen.append(verifier.verifier.num_rounds)
        await asyncio.sleep(0.1)
        return bool(seen[-1] == verifier.verifier.num_rounds)

    await until(is_still)
    return int(seen[-1])
