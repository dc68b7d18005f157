"""Messages between the services are lost, late, doubled, out of order, wrong or cut off: whatever
of it happens, every text is the one of plain decoding, its stream has no gap and no repeat, the
invariants hold after every step and all KV is free at the end.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from ssd.core.drafter_kind import DrafterKind
from tests.faults.faulty_cluster import FaultyCluster
from tests.faults.proxy import Fate
from tests.faults.schedules import FATES, SCRIPT, Request, Schedule, plain_text, schedules
from tests.models.table_runner import agreeing, load_table, short_sighted
from tests.services.cluster import Reply, read

NUM_SCHEDULES = {"model": 180, "self": 40, "ngram": 40, "model beside ngram": 40}
NUM_SOAKED = 3000
_LIMIT_S = 30.0
TIMEOUTS = {
    "heartbeat_s": 0.1,
    "peer_dead_s": 0.5,
    "connect_s": 0.5,
    "drain_s": 0.2,
    "lease_s": 1.0,
}


SECTIONS: dict[str, dict[str, Any]] = {
    "model": {},
    "self": {"speculation": {"drafters": ["self"]}, "models": {"draft_layers": 1}},
    "ngram": {"speculation": {"drafters": ["ngram"]}},
    "model beside ngram": {"speculation": {"drafters": ["model", "ngram"]}},
}
"""Who drafts; n-grams alone do so in a process, which messages reach."""
NGRAM = {"size_n": 3, "shortest": 1}


class Stage:
    """A cluster that lives through all schedules of a test, and the loop that it lives on."""

    def __init__(self, runner: asyncio.Runner, drafters: str) -> None:
        self._runner = runner
        self.drafters = drafters
        self.cluster = runner.run(_empty())
        self.struck: Counter[tuple[str, Fate]] = Counter()
        self.num_accepted: Counter[str] = Counter()  # nodes, by the kind of drafter

    def start(self) -> None:
        self._runner.run(_start(self.cluster, self.drafters))

    def play(self, schedule: Schedule) -> None:
        self._runner.run(self._play(schedule))

    def close(self) -> None:
        self._runner.run(self.cluster.close())
        assert not self.cluster.deaths, f"an engine died: {self.cluster.deaths}"

    async def _play(self, schedule: Schedule) -> None:
        cluster = self.cluster
        async with asyncio.timeout(_LIMIT_S):
            await cluster.until_whole()
            cluster.play(schedule.faults)
            asked = [asyncio.create_task(_ask(cluster, each)) for each in schedule.requests]
            replies = await asyncio.gather(*asked)
            self.struck.update((each.edge, each.fate) for each in cluster.struck)
            cluster.play(())
            await cluster.until_freed()
        assert not cluster.deaths, f"an engine died: {cluster.deaths}"
        for request, reply in zip(schedule.requests, replies, strict=True):
            assert reply.token_ids == plain_text(request)
            assert reply.num_tokens == len(reply.token_ids)
            for kind, figures in reply.complete.figures.drafters.items():
                self.num_accepted[kind] += figures.num_accepted


async def _ask(cluster: FaultyCluster, request: Request) -> Reply:
    """As a client does that is told to come again: no verifier may be attached when it comes."""
    while True:
        try:
            return await read(cluster.call(request.prompt, **request.fields))
        except grpc.aio.AioRpcError as error:
            if "no verifier is attached yet" not in (error.details() or ""):
                raise
        await asyncio.sleep(0.02)


async def _empty() -> FaultyCluster:
    return FaultyCluster()


async def _start(cluster: FaultyCluster, drafters: str) -> None:
    place = "process" if drafters == "ngram" else "verifier"
    sections = SECTIONS[drafters] | {"ngram": NGRAM | {"place": place}}
    await cluster.coordinate(timeouts=TIMEOUTS, **sections)
    target = load_table(agreeing(SCRIPT), name="target")
    await cluster.verify(target)
    if drafters == "ngram":
        await cluster.draft_ngrams(target)
    else:
        kind = DrafterKind.SELF if drafters == "self" else DrafterKind.MODEL
        await cluster.draft(load_table(short_sighted(SCRIPT), name="draft"), kind=kind)


@pytest.fixture(params=NUM_SCHEDULES)
def stage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        made = Stage(runner, request.param)
        services = ("verifier_service.service", "drafter_service.service")
        for module in (*services, "drafter_service.ngram_service"):
            monkeypatch.setattr(f"{module}.exit_when_engine_dies", made.cluster.engine_died)
        try:
            made.start()
            yield made
        finally:
            made.close()


def _play_many(stage: Stage, count: int, *, is_repeatable: bool) -> None:
    """A failure is told with the smallest schedule that still fails."""

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=is_repeatable,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(schedule=schedules())
    def every_schedule(schedule: Schedule) -> None:
        stage.play(schedule)

    every_schedule()


@pytest.mark.timeout(300)
def test_random_message_faults_change_no_text(stage: Stage) -> None:
    _play_many(stage, NUM_SCHEDULES[stage.drafters], is_repeatable=True)
    if stage.drafters == "model":
        expected = {(edge, fate) for edge, fates in FATES.items() for fate in fates}
        assert stage.struck.keys() == expected, f"never struck: {expected - stage.struck.keys()}"
    for kind in stage.drafters.split(" beside "):
        assert stage.num_accepted[kind] > 0, f"{kind} drafted nothing that came true"


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_more_message_faults_change_no_text(stage: Stage) -> None:
    _play_many(stage, NUM_SOAKED, is_repeatable=False)
