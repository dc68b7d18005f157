"""The Python client.

with Client("127.0.0.1:50050") as client:
    generation = client.generate("Once upon a time", Options(max_tokens=64, temperature=0.0))
    for piece in generation:
        print(piece.text, end="", flush=True)
    print(generation.completion.figures.acceptance)
"""

import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import grpc

from ssd.core import errors
from ssd.core.messages import FinishReason
from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, RoundRecord
from ssd.core.rule import Rule
from ssd.v1 import (
    generation_pb2,
    generation_pb2_grpc,
    registry_pb2,
    registry_pb2_grpc,
)
from ssd.wire.codec import (
    MODES,
    decode_finish_reason,
    decode_mode,
    decode_round,
    decode_spans,
)
from ssd.wire.sampling_codec import RULES, decode_rule
from ssd.wire.status import error_of_call

_SHORT_CALL_S = 10.0
_FIRST_RETRY_S = 0.05
_LAST_RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class Options:
    """How to generate; None leaves a value to the server."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    mode: Mode | None = None
    rule: Rule | None = None
    request_id: str | None = None
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    include_rounds: bool = False
    timeout_s: float | None = None
    traceparent: str | None = None
    """W3C trace context that the request's spans continue."""
    resume_s: float = 0.0
    """Seconds for which a generation whose stream broke is tried again where it stood."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What came in one message; the text holds whole characters only."""

    text: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """How a generation ended, and its figures (`ssd.core.rounds` defines the words)."""

    request_id: str
    finish_reason: FinishReason
    num_prompt_tokens: int
    num_completion_tokens: int
    seed: int
    mode: Mode
    rule: Rule
    exactness: str
    figures: generation_pb2.SpeculationFigures
    rounds: tuple[RoundRecord, ...]
    growth: tuple[GrowthSpan, ...]


class Generation:
    """A stream of pieces; `completion` is there once it has been read to its end.

    `call(num_tokens, address)` starts it, or goes on with it behind tokens that were received; an
    address that is not empty is that of the coordinator to ask.
    """

    def __init__(self, call: Callable[[int, str], Any], *, resume_s: float = 0.0) -> None:
        self._start = call
        self._resume_s = resume_s
        self._call = call(0, "")
        self._num_tokens = 0
        self._completion: Completion | None = None

    @property
    def completion(self) -> Completion:
        if self._completion is None:
            raise RuntimeError("the generation has not been read to its end")
        return self._completion

    def __iter__(self) -> Iterator[Piece]:
        """Raises an error of `ssd.core.errors` when the server refuses or fails."""
        give_up: float | None = None
        pause_s = _FIRST_RETRY_S
        while self._completion is None:
            try:
                for piece in self._read():
                    give_up, pause_s = None, _FIRST_RETRY_S
                    yield piece
            except errors.OwnedElsewhere as elsewhere:
                if not self._resume_s:
                    raise
                self._call = self._start(self._num_tokens, elsewhere.address)
            except errors.Unavailable:
                give_up = give_up or time.monotonic() + self._resume_s
                if time.monotonic() + pause_s > give_up:
                    raise
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_RETRY_S)
                self._call = self._start(self._num_tokens, "")

    def cancel(self) -> None:
        """Stop generating; the server frees what it held."""
        self._call.cancel()

    def _read(self) -> Iterator[Piece]:
        try:
            for response in self._call:
                if response.HasField("delta"):
                    piece = Piece(response.delta.text, tuple(response.delta.token_ids))
                    self._num_tokens += len(piece.token_ids)
                    yield piece
                else:
                    self._completion = _completion(response.complete)
        except grpc.RpcError as error:
            raise error_of_call(error) from error


class Client:
    """A connection to a coordinator; `with` closes it."""

    def __init__(self, address: str) -> None:
        self._channels: list[grpc.Channel] = []
        self._dial(address)

    def _dial(self, address: str) -> None:
        self._address = address
        # A restarted coordinator should be found in well under a second.
        options = [
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
        ]
        channel = grpc.insecure_channel(address, options=options)
        self._generation = generation_pb2_grpc.GenerationServiceStub(channel)
        self._registry = registry_pb2_grpc.RegistryServiceStub(channel)
        self._channels.append(channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

    def generate(self, prompt: str | Sequence[int], options: Options | None = None) -> Generation:
        """Start generating from a text or from token ids."""
        chosen = options or Options()
        if chosen.resume_s:
            chosen = _resumable(chosen)
        request = _request(prompt, chosen)
        metadata = None if chosen.traceparent is None else (("traceparent", chosen.traceparent),)

        def call(num_tokens: int, address: str) -> Any:
            if chosen.resume_s:
                request.resume_from = num_tokens
            if address and address != self._address:
                self._dial(address)  # the request's own coordinator: it is asked from now on
            return self._generation.Generate(request, timeout=chosen.timeout_s, metadata=metadata)

        return Generation(call, resume_s=chosen.resume_s)

    def model_info(self) -> generation_pb2.GetModelInfoResponse:
        """Raises Unavailable while no verifier is attached."""
        try:
            request = generation_pb2.GetModelInfoRequest()
            info: generation_pb2.GetModelInfoResponse = self._generation.GetModelInfo(
                request, timeout=_SHORT_CALL_S
            )
            return info
        except grpc.RpcError as error:
            raise error_of_call(error) from error

    def cancel(self, request_id: str) -> None:
        """Raises UnknownSession when no such request runs."""
        try:
            request = generation_pb2.CancelRequest(request_id=request_id)
            self._generation.Cancel(request, timeout=_SHORT_CALL_S)
        except grpc.RpcError as error:
            raise error_of_call(error) from error

    def drain(self, worker: str, *, undo: bool = False) -> int:
        """Take a worker out of use, or put it back; how many sessions stay there until they end.

        Raises:
            UnknownSession: the coordinator knows no such worker.
        """
        try:
            request = registry_pb2.DrainRequest(name=worker, undo=undo)
            answer: registry_pb2.DrainResponse = self._registry.Drain(
                request, timeout=_SHORT_CALL_S
            )
            return answer.num_staying
        except grpc.RpcError as error:
            raise error_of_call(error) from error

    def dump(self, session_id: str, *, with_tokens: bool = False) -> tuple[bytes, ...]:
        """The flight records of a session; raises UnknownSession when none are kept."""
        request = registry_pb2.DumpSessionRequest(session_id=session_id, with_tokens=with_tokens)
        try:
            answer = self._registry.DumpSession(request, timeout=_SHORT_CALL_S)
        except grpc.RpcError as error:
            raise error_of_call(error) from error
        return tuple(answer.records)

    def status(self) -> registry_pb2.GetStatusResponse:
        """Which workers and sessions there are; raises errors.Unavailable without a server."""
        try:
            status: registry_pb2.GetStatusResponse = self._registry.GetStatus(
                registry_pb2.GetStatusRequest(), timeout=_SHORT_CALL_S
            )
            return status
        except grpc.RpcError as error:
            raise error_of_call(error) from error


def _resumable(options: Options) -> Options:
    """Give the request a name to ask for, and a seed to be made again from if all is lost."""
    request_id = options.request_id or uuid.uuid4().hex
    seed = secrets.randbits(64) if options.seed is None else options.seed
    return replace(options, request_id=request_id, seed=seed)


def _request(prompt: str | Sequence[int], options: Options) -> generation_pb2.GenerateRequest:
    try:
        request = generation_pb2.GenerateRequest(
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            top_p=options.top_p,
            top_k=options.top_k,
            min_p=options.min_p,
            seed=options.seed,
            mode=MODES[options.mode] if options.mode is not None else None,
            rule=RULES[options.rule] if options.rule is not None else None,
            request_id=options.request_id,
            stop_token_ids=options.stop_token_ids,
            ignore_eos=options.ignore_eos,
            include_rounds=options.include_rounds,
        )
        if isinstance(prompt, str):
            request.text = prompt
        else:
            request.token_ids.token_ids.extend(prompt)
    except ValueError as error:  # a number that its field cannot hold
        raise errors.InvalidRequest(str(error)) from error
    return request


def _completion(message: generation_pb2.Complete) -> Completion:
    return Completion(
        request_id=message.request_id,
        finish_reason=decode_finish_reason(message.finish_reason),
        num_prompt_tokens=message.usage.prompt_tokens,
        num_completion_tokens=message.usage.completion_tokens,
        seed=message.seed,
        mode=decode_mode(message.mode),
        rule=decode_rule(message.rule),
        exactness=message.exactness,
        figures=message.figures,
        rounds=tuple(decode_round(each) for each in message.rounds),
        growth=decode_spans(message.growth),
    )
