"""Two thousand random requests: refused by name or equal to plain decoding, and nothing is left."""

import asyncio
import random
from collections import defaultdict

import grpc
import grpc.aio
import pytest

from ssd.v1 import common_pb2, generation_pb2_grpc
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table, short_sighted
from tests.services.cluster import Cluster, request_of
from tests.services.random_requests import (
    EOS,
    Expected,
    RandomRequest,
    expected_answers,
    random_request,
)

NUM_AT_ONCE = 8
STOP = common_pb2.FINISH_REASON_STOP


@pytest.mark.timeout(300)
async def test_random_requests_are_refused_by_name_or_served_exactly(
    cluster: Cluster, script: ScriptedModel
) -> None:
    await check_random_requests(cluster, script, range(2_000))


@pytest.mark.soak
@pytest.mark.timeout(3_600)
async def test_many_more_random_requests(cluster: Cluster, script: ScriptedModel) -> None:
    await check_random_requests(cluster, script, range(2_000, 22_000))


async def check_random_requests(cluster: Cluster, script: ScriptedModel, seeds: range) -> None:
    requests = [random_request(random.Random(seed)) for seed in seeds]
    # Before anything runs: the services share this event loop, and leases end when it is held up.
    answers = [
        [] if each.bad_field or each.is_left else expected_answers(script, each)
        for each in requests
    ]
    await cluster.coordinate(coordinator={"max_sessions": 16, "max_queue": 512})
    await cluster.pair(
        load_table(agreeing(script), name="target", eos_token_ids=(EOS,)),
        load_table(short_sighted(script), name="draft", eos_token_ids=(EOS,)),
    )
    places = asyncio.Semaphore(NUM_AT_ONCE)
    outcomes: defaultdict[str, int] = defaultdict(int)

    async def run(request: RandomRequest, expected: list[Expected]) -> None:
        async with places:
            outcomes[await check(cluster, request, expected)] += 1

    async with asyncio.TaskGroup() as group:
        for request, expected in zip(requests, answers, strict=True):
            group.create_task(run(request, expected))
    assert outcomes["served"] > len(seeds) / 2
    assert outcomes["refused"] > len(seeds) / 4
    assert outcomes["left"] > len(seeds) / 50
    await cluster.until_freed()
    assert not (await cluster.status()).sessions
    assert (await cluster.generate([1], max_tokens=3, ignore_eos=True)).num_tokens == 3


async def check(cluster: Cluster, request: RandomRequest, expected: list[Expected]) -> str:
    """Send one request; what became of it."""
    stub = generation_pb2_grpc.GenerationServiceStub(cluster.channel)
    call = stub.Generate(request_of(request.prompt, **request.fields), timeout=120)
    token_ids: defaultdict[int, list[int]] = defaultdict(list)
    texts: defaultdict[int, str] = defaultdict(str)
    num_logprobs, complete, refusal = 0, None, None
    try:
        async for response in call:
            if request.is_left:
                call.cancel()
                return "left"
            delta = response.delta
            token_ids[delta.index] += delta.token_ids
            texts[delta.index] += delta.text
            num_logprobs += len(delta.logprobs)
            complete = response.complete
    except grpc.aio.AioRpcError as error:
        refusal = error
    if refusal is not None:
        assert refusal.code() is grpc.StatusCode.INVALID_ARGUMENT, (request, refusal)
        assert request.bad_field is not None, (request, refusal.details())
        assert request.bad_field in (refusal.details() or ""), (request, refusal.details())
        return "refused"
    assert request.bad_field is None, request
    assert complete is not None
    for index, answer in enumerate(expected):
        assert tuple(token_ids[index]) == answer.token_ids, request
        assert texts[index] == answer.text, request
    assert (complete.finish_reason == STOP) == expected[0].is_stopped, request
    num_tokens = sum(len(each.token_ids) for each in expected)
    assert complete.usage.completion_tokens == num_tokens
    assert num_logprobs == (num_tokens if request.fields.get("logprobs") else 0)
    return "served"
