"""Requests that begin alike share KV on both sides, and a prefix makes the first token sooner."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import grpc.aio
import pytest

from ssd.engine.loading import LoadedModel
from ssd.telemetry.scraping import Scrape, scrape
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table
from tests.services.cluster import Cluster, Reply, read_rest, read_some

COMMON = tuple(index * 5 % 12 for index in range(200))


def _num_copied(cluster: Cluster) -> list[int]:
    """Slots that each worker's runner copied so far, verifier first."""
    machines: list[Any] = [each.service.machine for each in cluster.workers]
    return [machine._runner.memory.num_copied for machine in machines]


async def figures_of(cluster: Cluster, name: str) -> Scrape:
    """What a worker serves to Prometheus."""
    worker = (await cluster.worker_status(name)).worker
    return await asyncio.to_thread(scrape, worker.metrics_address)


async def test_a_second_request_reads_the_prefix_on_both_sides(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    await cluster.pair(table_target, table_draft)
    replies: list[Reply] = []
    for tail in ((1,), (2, 3), (1,)):
        prompt = (*COMMON, *tail)
        reply = await cluster.generate(prompt, temperature=0.0, max_tokens=30, mode="sd")
        assert reply.token_ids == script.continue_text(prompt, max_len=len(prompt) + 30)
        await cluster.until_freed()
        replies.append(reply)
    assert [each.complete.figures.num_cached for each in replies] == [0, 200, 200]
    verifier, drafter = _num_copied(cluster)
    assert verifier == 400
    assert drafter >= 400
    assert all(each.acceptance > 0 for each in replies)
    for name, role in (("verifier-0", "verifier"), ("drafter-0", "drafter")):
        figures = await figures_of(cluster, name)
        assert figures.value("ssd_prefix_hits_total", role=role) == 2
        assert figures.value("ssd_prefix_hit_tokens_total", role=role) >= 400
        kept = figures.value("ssd_kv_slots_cached", role=role)
        assert 200 <= kept <= figures.value("ssd_kv_slots_free", role=role), "kept ones are free"
        assert figures.value("ssd_kv_slots_used", role=role) == 0


async def test_a_turn_of_a_conversation_reads_all_of_the_turns_before(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    await cluster.pair(table_target, table_draft)
    text: tuple[int, ...] = COMMON
    for turn in range(4):
        reply = await cluster.generate(text, temperature=0.0, max_tokens=20)
        expected = script.continue_text(text, max_len=len(text) + 20)
        assert reply.token_ids == expected
        if turn:  # all but the newest tokens of the turn before were in the KV
            assert reply.complete.figures.num_cached > len(text) - 20
        text = (*text, *reply.token_ids, 3, 4)
        await cluster.until_freed()


async def test_a_long_prompt_stalls_nobody_for_longer_than_a_chunk(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    await cluster.coordinate(verifier={"max_rows": 32})
    verifier = await cluster.verify(table_target)
    running = cluster.call((7,), temperature=0.0, max_tokens=150, mode="ar", include_rounds=True)
    begun = await read_some(running, 3)
    long = await cluster.generate(COMMON, temperature=0.0, max_tokens=2, mode="ar")
    assert long.token_ids == script.continue_text(COMMON, max_len=202)
    rest = await read_rest(running)
    assert (*begun, *rest.token_ids) == script.continue_text((7,), max_len=151)
    rounds = rest.complete.rounds
    assert [each.round_id for each in rounds[1:]] == [each.round_id + 1 for each in rounds[:-1]]
    assert max(each.num_batch_rows for each in rounds) <= 32
    assert verifier.verifier.num_rounds >= len(rounds)


async def test_sessions_give_way_to_older_ones_and_their_clients_see_nothing(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    """Three fit at first and not when they have grown: one is preempted and goes on later."""
    await cluster.coordinate(verifier={"kv_slots": 1024})
    verifier, _ = await cluster.pair(table_target, table_draft)
    calls = [
        cluster.call((index, 5), temperature=0.0, max_tokens=460, mode="ar", request_id=f"r{index}")
        for index in range(3)
    ]
    replies = [await read_rest(call) for call in calls]
    for index, reply in enumerate(replies):
        assert reply.token_ids == script.continue_text((index, 5), max_len=462)
    assert verifier.verifier.room.num_preempted > 0
    figures = await figures_of(cluster, "verifier-0")
    preempted = figures.value("ssd_kv_preemptions_total", role="verifier")
    assert preempted == verifier.verifier.room.num_preempted
    await cluster.until_freed()


async def _first_token_s(cluster: Cluster, prompt: Sequence[int]) -> float:
    start = time.perf_counter()
    call: grpc.aio.UnaryStreamCall = cluster.call(prompt, temperature=0.0, max_tokens=4)
    await read_some(call, 1)
    seconds = time.perf_counter() - start
    await read_rest(call)
    await cluster.until_freed()
    return seconds


async def test_a_shared_prefix_brings_the_first_token_sooner(
    cluster: Cluster, script: ScriptedModel
) -> None:
    """By as much as there are forwards less; real models are in benchmarks/prefix_cache.py."""
    await cluster.coordinate(verifier={"max_rows": 32})
    await cluster.pair(
        load_table(agreeing(script), name="target", forward_s=0.03),
        load_table(agreeing(script), name="draft"),
    )
    cold = await _first_token_s(cluster, (*COMMON, 1))
    warm = await _first_token_s(cluster, (*COMMON, 2))
    assert 3 * warm < cold


async def test_what_was_run_before_changes_neither_text_nor_acceptance(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    """G4, B6: real models in float64; a prompt alone, and after others that begin like it."""
    await cluster.pair(target, draft)
    prompt = [(index * 7) % 200 for index in range(150)]
    settings = [
        {"temperature": 0.0, "mode": "sd"},
        {"temperature": 1.0, "seed": 5, "mode": "sd"},
    ]
    fresh = [await cluster.generate(prompt, max_tokens=24, **each) for each in settings]
    others = [[*prompt, 9, 9, 9], [*prompt[:100], 3], prompt[:70], [*prompt, *range(80)]]
    for other in others:
        await cluster.generate(other, max_tokens=40, temperature=0.0)
    again = [await cluster.generate(prompt, max_tokens=24, **each) for each in settings]
    assert [each.token_ids for each in again] == [each.token_ids for each in fresh]
    # A prompt that is all cached drafts for its first token already, so rounds fall elsewhere.
    assert [each.acceptance for each in again] == pytest.approx(
        [each.acceptance for each in fresh], abs=0.1
    )
    assert fresh[0].complete.figures.num_cached == 0
    assert {each.complete.figures.num_cached for each in again} == {149}
