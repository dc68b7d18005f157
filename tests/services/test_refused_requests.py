"""Requests that cannot be served are refused by name and harm nobody else."""

import asyncio
import math
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from ssd.engine.loading import LoadedModel
from ssd.v1 import generation_pb2, generation_pb2_grpc
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table
from tests.services.cluster import (
    Cluster,
    Reply,
    read,
    read_some,
    refusal_of,
    request_of,
    until,
)

PROMPT = (1, 2, 3)
BAD_REQUESTS: list[tuple[str, generation_pb2.GenerateRequest]] = [
    ("prompt", request_of("")),
    ("prompt", request_of([])),
    ("prompt", generation_pb2.GenerateRequest()),
    ("token_ids", request_of([1, 12])),
    ("token_ids", request_of([2**32 - 1])),
    ("token_ids", request_of([12] * 1_000_000)),
    ("prompt", request_of([1] * 1_000_000)),
    ("text", request_of("a" * (64 * 512 + 1))),
    ("stop_token_ids", request_of(PROMPT, stop_token_ids=[12])),
    ("stop_token_ids", request_of(PROMPT, stop_token_ids=[1] * 65)),
    ("temperature", request_of(PROMPT, temperature=math.nan)),
    ("temperature", request_of(PROMPT, temperature=-0.5)),
    ("temperature", request_of(PROMPT, temperature=math.inf)),
    ("temperature", request_of(PROMPT, temperature=2.5)),
    ("top_p", request_of(PROMPT, top_p=0.0)),
    ("top_p", request_of(PROMPT, top_p=1.5)),
    ("top_p", request_of(PROMPT, top_p=math.nan)),
    ("min_p", request_of(PROMPT, min_p=1.0)),
    ("min_p", request_of(PROMPT, min_p=-0.1)),
    ("min_p", request_of(PROMPT, min_p=math.nan)),
    ("max_tokens", request_of(PROMPT, max_tokens=0)),
    ("max_tokens", request_of(PROMPT, max_tokens=510)),
    ("max_tokens", request_of(PROMPT, max_tokens=2**32 - 1)),
    ("min_tokens", request_of(PROMPT, max_tokens=4, min_tokens=5)),
    ("min_tokens", request_of(PROMPT, min_tokens=510)),
    ("min_tokens", request_of(PROMPT, min_tokens=2, stop_token_ids=range(12))),
    ("repetition_penalty", request_of(PROMPT, repetition_penalty=0.0)),
    ("repetition_penalty", request_of(PROMPT, repetition_penalty=-1.0)),
    ("repetition_penalty", request_of(PROMPT, repetition_penalty=1e-300)),
    ("repetition_penalty", request_of(PROMPT, repetition_penalty=math.inf)),
    ("repetition_penalty", request_of(PROMPT, repetition_penalty=math.nan)),
    ("presence_penalty", request_of(PROMPT, presence_penalty=2.1)),
    ("presence_penalty", request_of(PROMPT, presence_penalty=math.nan)),
    ("frequency_penalty", request_of(PROMPT, frequency_penalty=-2.1)),
    ("frequency_penalty", request_of(PROMPT, frequency_penalty=math.inf)),
    ("logit_bias", request_of(PROMPT, logit_bias={12: 1.0})),
    ("logit_bias", request_of(PROMPT, logit_bias={2**32 - 1: 1.0})),
    ("logit_bias", request_of(PROMPT, logit_bias={1: 100.5})),
    ("logit_bias", request_of(PROMPT, logit_bias={1: math.nan})),
    ("logit_bias", request_of(PROMPT, logit_bias={1: -math.inf})),
    ("bad_words", request_of(PROMPT, bad_words=[""])),
    ("bad_words", request_of(PROMPT, bad_words=["  "])),
    ("bad_words", request_of(PROMPT, bad_words=["a" * 257])),
    ("bad_words", request_of(PROMPT, bad_words=["ab"] * 513)),
    ("bad_words", request_of(PROMPT, bad_words=["letters beyond twelve ids"])),
    ("bad_token_ids", request_of(PROMPT, bad_token_ids=[{"token_ids": []}])),
    ("bad_token_ids", request_of(PROMPT, bad_token_ids=[{"token_ids": [12]}])),
    ("bad_words", request_of(PROMPT, bad_token_ids=[{"token_ids": [1] * 65}])),
    ("bad_words", request_of(PROMPT, bad_token_ids=[{"token_ids": [n]} for n in range(12)])),
    ("99", generation_pb2.GenerateRequest.FromString(b"\x98\x06\x01" + b"\x0a\x01a")),
    ("stop", request_of(PROMPT, stop=[""])),
    ("stop", request_of(PROMPT, stop=["a" * 257])),
    ("stop", request_of(PROMPT, stop=["a"] * 17)),
    ("n", request_of(PROMPT, n=0)),
    ("n", request_of(PROMPT, n=65)),
    ("chat", generation_pb2.GenerateRequest(chat=generation_pb2.ChatMessages())),
    ("mode", request_of(PROMPT, mode=0)),
    ("mode", request_of(PROMPT, mode=77)),
    ("rule", request_of(PROMPT, rule=0)),
    ("rule", request_of(PROMPT, rule=77)),
    ("request_id", request_of(PROMPT, request_id="")),
    ("request_id", request_of(PROMPT, request_id="x" * 129)),
    ("request_id", request_of(PROMPT, request_id="a\nb")),
    ("resume_from", request_of(PROMPT, resume_from=510)),
    ("resume_from", request_of(PROMPT, resume_from=1, request_id="a", n=2)),
    ("top_logprobs", request_of(PROMPT, logprobs=True, top_logprobs=21)),
    ("top_logprobs", request_of(PROMPT, logprobs=True, top_logprobs=13)),
    ("top_logprobs", request_of(PROMPT, top_logprobs=1)),
    ("prompt_logprobs", request_of(PROMPT, prompt_logprobs=21)),
    ("prompt_logprobs", request_of(PROMPT, prompt_logprobs=13)),
    ("speculation.max_nodes", request_of(PROMPT, speculation={"max_nodes": 0})),
    ("speculation.max_depth", request_of(PROMPT, speculation={"max_depth": 0})),
]
WITHOUT_A_BAD_VALUE = {
    *("top_k", "seed", "ignore_eos", "include_rounds", "include_stop"),
    *("logprobs", "echo", "priority"),
}


def test_the_table_has_every_field_that_can_be_bad() -> None:
    named = {field.partition(".")[0] for field, _ in BAD_REQUESTS} - {"prompt", "99"}
    fields = {each.name for each in generation_pb2.GenerateRequest.DESCRIPTOR.fields}
    assert named == fields - WITHOUT_A_BAD_VALUE


def violation_of(error: grpc.aio.AioRpcError) -> tuple[str, str]:
    """Field and description of the refusal's google.rpc.BadRequest."""
    metadata = dict(error.trailing_metadata())
    status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    bad = error_details_pb2.BadRequest()
    assert status.details[0].Unpack(bad)
    assert len(bad.field_violations) == 1
    return bad.field_violations[0].field, bad.field_violations[0].description


async def test_a_bad_field_is_named_and_the_service_goes_on(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    """F5, while another client is served."""
    await cluster.pair(table_target, table_draft)
    other = asyncio.create_task(cluster.generate(PROMPT, temperature=0.0, max_tokens=300))
    stub = generation_pb2_grpc.GenerationServiceStub(cluster.channel)
    for field, request in BAD_REQUESTS:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await read(stub.Generate(request))
        code, details = refused.value.code(), refused.value.details() or ""
        assert code is grpc.StatusCode.INVALID_ARGUMENT, f"{field}: {code} {details}"
        assert field in details, f"{field} is not named in: {details}"
        assert violation_of(refused.value) == (field, details)
    reply = await cluster.generate(PROMPT, temperature=0.0, max_tokens=20)
    assert reply.token_ids == script.continue_text(PROMPT, max_len=23)
    assert (await other).token_ids == script.continue_text(PROMPT, max_len=303)
    assert not (await cluster.status()).sessions
    await cluster.until_freed()


async def test_odd_but_good_values_are_served(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    """F4: a top_k above the vocabulary is no cut, the smallest temperatures act greedy."""
    await cluster.pair(table_target, table_draft)
    greedy = script.continue_text(PROMPT, max_len=23)
    fields: list[dict[str, Any]] = [
        {"temperature": -0.0},
        {"temperature": 0.0, "top_k": 2**31},
        {"temperature": 1.0, "top_k": 1},
        {"temperature": 0.0, "seed": 2**64 - 1, "request_id": "x" * 128},
        {"temperature": 0.0, "stop_token_ids": []},
    ]
    for each in fields:
        reply = await cluster.generate(PROMPT, max_tokens=20, **each)
        assert reply.token_ids == greedy, each
    full = [
        await cluster.generate(PROMPT, max_tokens=20, seed=3, temperature=1.0, top_k=top_k)
        for top_k in (0, 12, 13, 2**32 - 1)
    ]
    assert len({reply.token_ids for reply in full}) == 1


@pytest.mark.parametrize("temperature", [1e-5, 1e-3])
async def test_a_tiny_temperature_acts_greedy(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel, temperature: float
) -> None:
    await cluster.pair(target, draft)
    greedy = await cluster.generate("so", temperature=0.0, max_tokens=20)
    tiny = await cluster.generate("so", temperature=temperature, seed=1, max_tokens=20)
    assert tiny.token_ids == greedy.token_ids


async def test_a_mode_that_the_operator_forbids_is_refused(
    cluster: Cluster, table_target: LoadedModel
) -> None:
    await cluster.coordinate(speculation={"mode": "sd", "allow_request_mode": False})
    await cluster.verify(table_target)
    code, details = await refusal_of(cluster.generate(PROMPT, mode="ssd"))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "mode" in details
    await cluster.generate(PROMPT, mode="sd", max_tokens=4)


async def test_a_request_id_in_use_already_exists(cluster: Cluster, script: ScriptedModel) -> None:
    await cluster.coordinate()
    await cluster.verify(load_table(agreeing(script), forward_s=0.003))
    call = cluster.call(PROMPT, request_id="mine", temperature=0.0, max_tokens=400)
    await read_some(call, 1)
    code, details = await refusal_of(cluster.generate(PROMPT, request_id="mine"))
    assert code is grpc.StatusCode.ALREADY_EXISTS
    assert "mine" in details
    call.cancel()
    await cluster.until_freed()
    # G4: the id is free again, and nothing is left of its first session.
    reply = await cluster.generate((5, 5), request_id="mine", temperature=0.0, max_tokens=8)
    assert reply.token_ids == script.continue_text((5, 5), max_len=10)


async def test_a_full_queue_is_resource_exhausted_and_a_waiting_request_gets_its_turn(
    cluster: Cluster, script: ScriptedModel
) -> None:
    await cluster.coordinate(coordinator={"port": 0, "max_sessions": 1, "max_queue": 1})
    await cluster.verify(load_table(agreeing(script), forward_s=0.003))
    running = cluster.call(PROMPT, temperature=0.0, max_tokens=400)
    await read_some(running, 1)
    waiting = asyncio.create_task(cluster.generate((7,), temperature=0.0, max_tokens=5))
    await until(lambda: has_sessions(cluster, 2))
    code, details = await refusal_of(cluster.generate(PROMPT))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "1 requests wait" in details
    running.cancel()
    assert (await waiting).token_ids == script.continue_text((7,), max_len=6)


async def test_a_request_that_a_verifier_has_no_room_for_is_resource_exhausted(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    await cluster.coordinate(verifier={"kv_slots": 128})
    await cluster.verify(table_target)
    code, details = await refusal_of(cluster.generate(PROMPT, max_tokens=200))
    assert code is grpc.StatusCode.INVALID_ARGUMENT  # it never fits
    assert "do not fit a context of 115" in details
    together = [cluster.generate(PROMPT, temperature=0.0, max_tokens=50) for _ in range(8)]
    answers = await asyncio.gather(*together, return_exceptions=True)
    refusals = [each for each in answers if isinstance(each, grpc.aio.AioRpcError)]
    assert refusals
    assert {each.code() for each in refusals} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert all("KV slots" in (each.details() or "") for each in refusals)
    served = [each for each in answers if isinstance(each, Reply)]
    assert len(served) == 8 - len(refusals) > 0
    assert {each.token_ids for each in served} == {script.continue_text(PROMPT, max_len=53)}


async def has_sessions(cluster: Cluster, count: int) -> bool:
    return len((await cluster.status()).sessions) == count
