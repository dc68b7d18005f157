"""A client that leaves frees what it held, on both sides, at the next round boundary."""

import asyncio
import random
import threading
from collections.abc import Sequence

import grpc
import pytest

from ssd.v1 import generation_pb2_grpc
from tests.models.scripted_model import Prefix, ScriptedModel
from tests.models.table_runner import agreeing, load_table, short_sighted
from tests.services.cluster import (
    PATIENCE_S,
    Cluster,
    read,
    read_rest,
    read_some,
    refusal_of,
    request_of,
    until,
)

PROMPT = (1, 2, 3)


async def slow_pair(cluster: Cluster, script: ScriptedModel) -> None:
    await cluster.pair(
        load_table(agreeing(script), name="target", forward_s=0.003),
        load_table(short_sighted(script), name="draft"),
    )


async def has_no_sessions(cluster: Cluster) -> bool:
    return not (await cluster.status()).sessions


async def test_a_client_that_hangs_up_frees_its_slots(
    cluster: Cluster, script: ScriptedModel
) -> None:
    """H4: before the first token, and after some."""
    await slow_pair(cluster, script)
    for mode in ("ssd", "sd", "ar"):
        for num_tokens in (0, 1, 30):
            call = cluster.call(PROMPT, mode=mode, temperature=0.0, max_tokens=400)
            await read_some(call, num_tokens)
            call.cancel()
            await until(lambda: has_no_sessions(cluster))
            await cluster.until_freed()


class Held:
    """A model that stops in the forward that a text of `num_tokens` needs, until it may go on."""

    def __init__(self, script: ScriptedModel, num_tokens: int) -> None:
        self._logits_of, self._num_tokens = agreeing(script), num_tokens
        self.reached, self._may_go_on = threading.Event(), threading.Event()

    def __call__(self, text: Prefix) -> Sequence[float]:
        if len(text) >= self._num_tokens:
            self.reached.set()
            self._may_go_on.wait(PATIENCE_S)
        return self._logits_of(text)

    def go_on(self) -> None:
        self._may_go_on.set()


NUM_TOKENS = 24


@pytest.mark.parametrize("how", ["cancel", "hang up", "deadline"])
async def test_who_leaves_at_any_token_is_free_at_the_next_boundary(
    cluster: Cluster, script: ScriptedModel, how: str
) -> None:
    """H4: the first, a middle and the last token, while the round that draws it runs."""
    target = load_table(agreeing(script), name="target")
    verifier, _ = await cluster.pair(target, load_table(short_sighted(script), name="draft"))
    for mode in ("ssd", "sd", "ar"):
        for index in (0, NUM_TOKENS // 2, NUM_TOKENS - 1):
            held = Held(script, len(PROMPT) + index)
            target.runner._logits_of = held  # type: ignore[attr-defined]
            request = request_of(
                PROMPT, mode=mode, temperature=0.0, max_tokens=NUM_TOKENS, request_id="mine"
            )
            stub = generation_pb2_grpc.GenerationServiceStub(cluster.channel)
            call = stub.Generate(request, timeout=0.4 if how == "deadline" else PATIENCE_S)
            reading = asyncio.create_task(refusal_of(read(call)))
            assert await asyncio.to_thread(held.reached.wait, PATIENCE_S)
            before = verifier.verifier.num_rounds
            if how == "cancel":
                await cluster.cancel("mine")
            elif how == "hang up":
                call.cancel()
            if how == "hang up":
                await asyncio.gather(reading, return_exceptions=True)
            else:
                await reading
            await until(lambda: has_no_sessions(cluster))
            held.go_on()
            await cluster.until_freed()
            assert verifier.verifier.num_rounds <= before + 1, (mode, index)


async def test_a_cancel_from_elsewhere_ends_the_stream_and_frees_its_slots(
    cluster: Cluster, script: ScriptedModel
) -> None:
    await slow_pair(cluster, script)
    call = cluster.call(PROMPT, request_id="mine", temperature=0.0, max_tokens=400)
    await read_some(call, 3)
    await cluster.cancel("mine")
    code, details = await refusal_of(read_rest(call))
    assert code is grpc.StatusCode.CANCELLED
    assert "cancelled" in details
    await cluster.until_freed()


async def test_a_deadline_that_passes_frees_the_slots(
    cluster: Cluster, script: ScriptedModel
) -> None:
    await slow_pair(cluster, script)
    stub = generation_pb2_grpc.GenerationServiceStub(cluster.channel)
    call = stub.Generate(request_of(PROMPT, max_tokens=500, mode="ar"), timeout=0.3)
    assert (await refusal_of(read(call)))[0] is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: has_no_sessions(cluster))
    await cluster.until_freed()


async def test_a_request_in_the_queue_can_be_cancelled(
    cluster: Cluster, script: ScriptedModel
) -> None:
    await cluster.coordinate(coordinator={"port": 0, "max_sessions": 1})
    await slow_pair(cluster, script)
    running = cluster.call(PROMPT, temperature=0.0, max_tokens=450, mode="ar")
    begun = await read_some(running, 1)
    waiting = asyncio.create_task(
        refusal_of(cluster.generate(PROMPT, request_id="waiting", max_tokens=5))
    )

    async def is_queued() -> bool:
        return len((await cluster.status()).sessions) == 2

    await until(is_queued)
    await cluster.cancel("waiting")
    assert (await waiting)[0] is grpc.StatusCode.CANCELLED
    assert [each.session_id for each in (await cluster.status()).sessions] != ["waiting"]
    rest = await read_rest(running)
    assert (*begun, *rest.token_ids) == script.continue_text(PROMPT, max_len=453)
    assert (await cluster.generate(PROMPT, max_tokens=5)).num_tokens == 5


async def test_cancelling_an_unknown_request_is_not_found(cluster: Cluster) -> None:
    await cluster.coordinate()
    code, details = await refusal_of(cluster.cancel("nobody"))
    assert code is grpc.StatusCode.NOT_FOUND
    assert "nobody" in details


async def test_many_requests_with_random_cancels_leave_nothing(
    cluster: Cluster, script: ScriptedModel
) -> None:
    """G3, and those that stay are not disturbed."""
    await slow_pair(cluster, script)
    rng = random.Random(11)

    async def request(index: int) -> None:
        prompt = (index % 12, index % 7)
        num_tokens = rng.randrange(1, 40)
        call = cluster.call(
            prompt,
            mode=rng.choice(("ssd", "sd", "ar")),
            temperature=0.0,
            max_tokens=num_tokens if index % 2 else 400,
        )
        expected = script.continue_text(prompt, max_len=402)
        if index % 2:
            assert (await read_rest(call)).token_ids == expected[:num_tokens]
            return
        begun = await read_some(call, num_tokens)
        assert begun == expected[: len(begun)]
        call.cancel()

    await asyncio.gather(*(request(index) for index in range(60)))
    await until(lambda: has_no_sessions(cluster))
    await cluster.until_freed()
