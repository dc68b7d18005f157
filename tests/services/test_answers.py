"""Chat, stop strings, several answers, and the complete message, over the whole service."""

import asyncio
from collections import defaultdict
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from ssd.core.choice_seed import choice_seed
from ssd.engine.loading import LoadedModel
from ssd.tokenizer.chat_format import ChatFormat
from ssd.v1 import common_pb2, generation_pb2, generation_pb2_grpc
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table
from tests.models.tiny_pair import NUM_BYTES, byte_tokenizer
from tests.services.cluster import Cluster, read, read_rest, read_some, refusal_of, request_of
from tests.services.test_text import PROMPT, speaker

STOP = common_pb2.FINISH_REASON_STOP
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
CHAT = generation_pb2.ChatMessages(
    messages=[
        generation_pb2.ChatMessage(role="system", content="be brief"),
        generation_pb2.ChatMessage(role="user", content="hi"),
    ]
)


def stub_of(cluster: Cluster) -> Any:
    return generation_pb2_grpc.GenerationServiceStub(cluster.channel)


@pytest.mark.parametrize("stop", ["and", "n ✨", "👩‍🚀", "smile 😀, then", "!"])
async def test_a_stop_string_ends_text_and_ids_in_every_mode(cluster: Cluster, stop: str) -> None:
    """A4, A5: completed inside an accepted run, across two rounds, in characters of many bytes."""
    speech = "smile 😀, then 👩‍🚀 and n ✨!"
    await cluster.pair(speaker(speech, name="speaker"), speaker(speech, name="draft"))
    expected = speech[: speech.index(stop)]
    num_tokens = len((expected + stop).encode())
    for mode in ("ssd", "sd", "ar"):
        reply = await cluster.generate(PROMPT, mode=mode, temperature=0.0, stop=["nowhere", stop])
        assert reply.text == expected
        assert reply.token_ids == tuple(byte_tokenizer().encode(speech).ids[:num_tokens])
        assert reply.complete.finish_reason == STOP
        assert reply.complete.stop_string == stop
        kept = await cluster.generate(
            PROMPT, mode=mode, temperature=0.0, stop=[stop], include_stop=True
        )
        assert kept.text == expected + stop
        assert kept.token_ids == reply.token_ids
    await cluster.until_freed()


async def test_nothing_of_a_stop_string_is_ever_streamed(cluster: Cluster) -> None:
    speech = "one. two.. three... four"
    await cluster.coordinate()
    await cluster.verify(speaker(speech, name="speaker"))
    reply = await cluster.generate(PROMPT, mode="ar", temperature=0.0, stop=["...", "..?"])
    assert reply.text == "one. two.. three"
    shown = ""
    for piece in reply.pieces:
        shown += piece
        assert "one. two.. three".startswith(shown)


async def test_the_stop_token_is_named(cluster: Cluster) -> None:
    await cluster.coordinate()
    await cluster.verify(speaker("abc", name="speaker"))
    reply = await cluster.generate(PROMPT, temperature=0.0)
    assert reply.complete.stop_token_id == NUM_BYTES
    assert not reply.complete.stop_string
    limited = await cluster.generate(PROMPT, temperature=0.0, max_tokens=2)
    assert limited.complete.WhichOneof("matched_stop") is None


async def test_a_stop_string_frees_the_session_at_once(
    cluster: Cluster, script: ScriptedModel
) -> None:
    await cluster.coordinate()
    verifier = await cluster.verify(speaker("stop" * 60, name="speaker"))
    reply = await cluster.generate(PROMPT, temperature=0.0, stop=["p"])
    assert reply.text == "sto"
    await cluster.until_freed()
    assert await verifier.ask(lambda: verifier.verifier.num_rounds) < 60


async def test_chat_messages_go_through_the_models_template(
    cluster: Cluster, target: LoadedModel
) -> None:
    chatting = replace(target, chat=ChatFormat(TEMPLATE))
    await cluster.coordinate()
    await cluster.verify(chatting)
    prompt = "<system>be brief<user>hi<assistant>"
    expected = await cluster.generate(prompt, temperature=0.0, max_tokens=8)
    request = generation_pb2.GenerateRequest(chat=CHAT, temperature=0.0, max_tokens=8)
    reply = await read(stub_of(cluster).Generate(request))
    assert reply.token_ids == expected.token_ids
    tokenized = await stub_of(cluster).Tokenize(generation_pb2.TokenizeRequest(chat=CHAT))
    assert list(tokenized.token_ids) == byte_tokenizer().encode(prompt).ids
    assert tokenized.context_len == 512


async def test_a_model_without_a_template_refuses_chat(
    cluster: Cluster, target: LoadedModel
) -> None:
    await cluster.coordinate()
    await cluster.verify(target)
    code, details = await refusal_of(
        read(stub_of(cluster).Generate(generation_pb2.GenerateRequest(chat=CHAT)))
    )
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "chat template" in details
    empty = generation_pb2.GenerateRequest(chat=generation_pb2.ChatMessages())
    assert "chat" in (await refusal_of(read(stub_of(cluster).Generate(empty))))[1]


async def test_text_to_ids_and_back(cluster: Cluster, target: LoadedModel) -> None:
    await cluster.coordinate()
    await cluster.verify(target)
    stub = stub_of(cluster)
    for text in ("naïve 😀", ""):
        ids = (await stub.Tokenize(generation_pb2.TokenizeRequest(text=text))).token_ids
        assert list(ids) == byte_tokenizer().encode(text).ids
        back = await stub.Detokenize(generation_pb2.DetokenizeRequest(token_ids=ids))
        assert back.text == text
    special = generation_pb2.DetokenizeRequest(token_ids=[NUM_BYTES])
    assert (await stub.Detokenize(special)).text == ""
    special.keep_special_tokens = True
    assert (await stub.Detokenize(special)).text == "<|end|>"
    wrong = generation_pb2.DetokenizeRequest(token_ids=[NUM_BYTES + 1])
    code, details = await refusal_of(stub.Detokenize(wrong))
    assert (code, "token_ids" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)


async def test_several_answers_are_those_of_their_seeds(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    """n: the first answer is that of the request alone, each other one that of its own seed."""
    await cluster.coordinate(coordinator={"max_sessions": 2})
    await cluster.pair(target, draft)
    fields = {"seed": 7, "max_tokens": 12, "temperature": 1.0}
    alone = [
        await cluster.generate("so", **(fields | {"seed": choice_seed(7, index)}))
        for index in range(4)
    ]
    ids: defaultdict[int, list[int]] = defaultdict(list)
    texts: defaultdict[int, str] = defaultdict(str)
    complete = None
    async for response in stub_of(cluster).Generate(request_of("so", n=4, **fields)):
        if response.HasField("complete"):
            complete = response.complete
        ids[response.delta.index] += response.delta.token_ids
        texts[response.delta.index] += response.delta.text
    assert [tuple(ids[index]) for index in range(4)] == [each.token_ids for each in alone]
    assert [texts[index] for index in range(4)] == [each.text for each in alone]
    assert complete is not None
    assert [each.seed for each in complete.choices] == [each.complete.seed for each in alone]
    assert complete.seed == 7
    assert complete.usage.completion_tokens == sum(each.num_tokens for each in alone)
    await cluster.until_freed()


async def test_cancel_ends_every_answer(cluster: Cluster, script: ScriptedModel) -> None:
    await cluster.coordinate()
    await cluster.verify(load_table(agreeing(script), forward_s=0.003))
    call = cluster.call((1, 2), request_id="mine", n=3, temperature=1.0, max_tokens=400)
    await read_some(call, 1)
    await cluster.cancel("mine")
    code, _ = await refusal_of(read_rest(call))
    assert code is grpc.StatusCode.CANCELLED
    await cluster.until_freed()


async def test_the_complete_message_says_how_long_it_took(
    cluster: Cluster, script: ScriptedModel
) -> None:
    await cluster.coordinate()
    await cluster.pair(load_table(agreeing(script), forward_s=0.002), load_table(agreeing(script)))
    reply = await cluster.generate((1, 2, 3), temperature=0.0, max_tokens=40)
    timing, figures = reply.complete.timing, reply.complete.figures
    assert 0.0 <= timing.queue_ms <= timing.time_to_first_token_ms
    assert timing.time_to_first_token_ms >= 2.0
    assert 0.0 < timing.time_per_output_token_ms < 1_000.0
    assert list(figures.acceptance_at_depth) == pytest.approx(
        [count / figures.num_rounds for count in figures.accepted_at_depth]
    )
    assert figures.tokens_per_round == pytest.approx(40 / figures.num_rounds)


def details_of(error: grpc.aio.AioRpcError) -> list[Any]:
    status = status_pb2.Status.FromString(
        dict(error.trailing_metadata())["grpc-status-details-bin"]
    )
    assert (status.code, status.message) == (error.code().value[0], error.details())
    return list(status.details)


async def test_a_refused_field_comes_with_details(
    cluster: Cluster, table_target: LoadedModel
) -> None:
    await cluster.coordinate()
    await cluster.verify(table_target)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await cluster.generate((1,), top_p=7.0)
    bad = error_details_pb2.BadRequest()
    assert details_of(refused.value)[0].Unpack(bad)
    assert bad.field_violations[0].field == "top_p"
    assert bad.field_violations[0].description == "top_p must be above 0 and at most 1, not 7.0"


async def test_a_full_queue_says_when_to_come_again(
    cluster: Cluster, script: ScriptedModel
) -> None:
    await cluster.coordinate(coordinator={"max_sessions": 1, "max_queue": 0})
    await cluster.verify(load_table(agreeing(script), forward_s=0.003))
    running = cluster.call((1, 2), temperature=0.0, max_tokens=400)
    await read_some(running, 1)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await cluster.generate((1,))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    retry = error_details_pb2.RetryInfo()
    assert details_of(refused.value)[0].Unpack(retry)
    assert 0 < retry.retry_delay.ToMilliseconds() <= 10_000
    running.cancel()
    await cluster.until_freed()


async def test_penalties_and_bans_give_the_same_text_in_every_mode(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    fields: list[dict[str, Any]] = [
        {"temperature": 0.0, "repetition_penalty": 1.3},
        {"seed": 3, "presence_penalty": 1.0, "frequency_penalty": 0.5},
        {"seed": 4, "logit_bias": {97: 5.0, 98: -5.0}, "bad_words": ["a a", "b"]},
        {"seed": 5, "min_tokens": 20, "stop_token_ids": range(64)},
    ]
    for each in fields:
        replies = await asyncio.gather(
            *(
                cluster.generate("so", mode=mode, max_tokens=32, **each)
                for mode in ("ssd", "sd", "ar")
            )
        )
        assert len({reply.token_ids for reply in replies}) == 1
        assert replies[0].num_tokens > 20 or "min_tokens" not in each
