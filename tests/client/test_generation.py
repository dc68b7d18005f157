"""What our client promises: tries again only before anything came, counts, and hangs up."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from typing import Any

import grpc
import grpc.aio
import pytest

from ssd.client import AsyncGeneration, Generation, Message, Options
from ssd.client.connection import Tries
from ssd.client.request import build_request
from ssd.core.errors import Cancelled, InvalidRequest, NoCapacity, ProtocolError, Unavailable
from ssd.v1 import common_pb2, generation_pb2

Event = generation_pb2.GenerateResponse | grpc.StatusCode


def delta(*token_ids: int) -> generation_pb2.GenerateResponse:
    return generation_pb2.GenerateResponse(
        delta=generation_pb2.Delta(text="x" * len(token_ids), token_ids=token_ids)
    )


def complete(num_tokens: int) -> generation_pb2.GenerateResponse:
    return generation_pb2.GenerateResponse(
        complete=generation_pb2.Complete(
            finish_reason=common_pb2.FINISH_REASON_LENGTH,
            mode=common_pb2.MODE_SSD,
            usage=generation_pb2.Usage(completion_tokens=num_tokens),
        )
    )


class Call:
    """A call that plays events."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = iter(events)
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def __iter__(self) -> Iterator[generation_pb2.GenerateResponse]:
        for event in self.events:
            if isinstance(event, grpc.StatusCode):
                nothing = grpc.aio.Metadata()
                raise grpc.aio.AioRpcError(event, nothing, nothing, details="words")
            yield event

    async def __aiter__(self) -> Any:
        for event in self:
            yield event


class Server:
    """Plays one list of events per call."""

    def __init__(self, *calls: Iterable[Event]) -> None:
        self.calls = [Call(each) for each in calls]
        self.timeouts: list[float | None] = []

    def start(self, num_tokens: int, address: str, timeout_s: float | None) -> Call:
        self.timeouts.append(timeout_s)
        return self.calls[len(self.timeouts) - 1]


def read(
    server: Server, *, is_async: bool, max_retries: int = 3, timeout_s: float | None = None
) -> list[int]:
    tries = Tries(max_retries=max_retries, timeout_s=timeout_s)
    if not is_async:
        return [i for piece in Generation(server.start, tries) for i in piece.token_ids]

    async def read_all() -> list[int]:
        return [i async for p in AsyncGeneration(server.start, tries) for i in p.token_ids]

    return asyncio.run(read_all())


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED])
def test_it_tries_again_before_the_first_token(code: grpc.StatusCode, *, is_async: bool) -> None:
    server = Server([code], [code], [delta(1, 2), delta(3), complete(3)])
    assert read(server, is_async=is_async, timeout_s=60.0) == [1, 2, 3]
    assert len(server.timeouts) == 3
    times = [each for each in server.timeouts if each is not None]
    assert times == sorted(times, reverse=True), "the time is for all tries together"
    assert times[-1] < 60.0


@pytest.mark.parametrize("is_async", [False, True])
def test_it_never_tries_again_after_the_first_token(*, is_async: bool) -> None:
    server = Server([delta(1), grpc.StatusCode.UNAVAILABLE], [delta(1), complete(1)])
    with pytest.raises(Unavailable, match="words"):
        read(server, is_async=is_async)
    assert len(server.timeouts) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_it_gives_up(*, is_async: bool) -> None:
    full = [grpc.StatusCode.RESOURCE_EXHAUSTED]
    with pytest.raises(NoCapacity):
        read(Server(full, full), is_async=is_async, max_retries=1)
    began = time.monotonic()
    with pytest.raises(NoCapacity):
        read(Server(full, full), is_async=is_async, timeout_s=0.05)
    assert time.monotonic() - began < 1.0, "no pause that outlives the deadline"
    with pytest.raises(InvalidRequest):
        read(Server([grpc.StatusCode.INVALID_ARGUMENT], full), is_async=is_async)
    with pytest.raises(Cancelled):
        read(Server([grpc.StatusCode.CANCELLED], full), is_async=is_async)


@pytest.mark.parametrize("is_async", [False, True])
def test_other_ids_than_the_usage_says_are_an_error(*, is_async: bool) -> None:
    for count in (2, 4):
        with pytest.raises(ProtocolError, match=f"3 tokens came.* {count}"):
            read(Server([delta(1, 2, 3), complete(count)]), is_async=is_async)
    with pytest.raises(ProtocolError, match="without a complete message"):
        read(Server([delta(1)]), is_async=is_async)


def test_leaving_the_block_hangs_up() -> None:
    server = Server([delta(1), delta(2), complete(2)])
    with Generation(server.start, Tries(max_retries=0, timeout_s=None)) as generation:
        next(iter(generation))
        assert not server.calls[0].is_cancelled
    assert server.calls[0].is_cancelled


def test_a_prompt_may_be_a_text_ids_or_a_conversation() -> None:
    assert build_request("hi", Options()).text == "hi"
    assert list(build_request((1, 2), Options()).token_ids.token_ids) == [1, 2]
    chat = build_request([Message("user", "hi")], Options()).chat
    assert [(each.role, each.content) for each in chat.messages] == [("user", "hi")]
    assert build_request([], Options()).WhichOneof("prompt") in (None, "token_ids")


@pytest.mark.parametrize(
    "options", [Options(max_tokens=-1), Options(seed=2**64), Options(logit_bias={-1: 1.0})]
)
def test_a_number_that_its_field_cannot_hold_is_refused(options: Options) -> None:
    """F5: a negative id does not even leave the client."""
    with pytest.raises(InvalidRequest):
        build_request("hi", options)


def test_zero_is_not_unset() -> None:
    request = build_request("hi", Options(temperature=0.0, seed=0, max_tokens=0, priority=0))
    for name in ("temperature", "seed", "max_tokens", "priority"):
        assert request.HasField(name)
    unset = build_request("hi", Options())
    optional = [each for each in unset.DESCRIPTOR.fields if each.has_presence]
    plain = {"include_stop", "ignore_eos", "logprobs", "echo", "include_rounds", "text"}
    said = {each.name for each in optional if unset.HasField(each.name)}
    assert said <= plain | {"speculation"}
