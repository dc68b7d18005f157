"""The blocking client."""

import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import grpc

from ssd.client.connection import Identity, Tls, Tries, resumable
from ssd.client.request import Message, Options, Prompt, build_request, chat_messages
from ssd.client.result import Completion, Piece, PromptEcho, Reader
from ssd.core.errors import OwnedElsewhere
from ssd.v1 import (
    generation_pb2,
    generation_pb2_grpc,
    registry_pb2,
    registry_pb2_grpc,
)
from ssd.wire.channels import channel_options
from ssd.wire.status import error_of_call

_SHORT_CALL_S = 10.0
_MAX_RETRIES = 3

StartCall = Callable[[int, str, float | None], Any]
"""Starts the call: behind so many tokens that came, at another address unless that is empty, and
with the seconds that it may take."""


class Generation:
    """A stream of pieces; `completion` is there once it has been read to its end.

    A full or absent server is tried again until the first token came, and never after. `with` ends
    the generation wherever the block is left.
    """

    def __init__(self, start: StartCall, tries: Tries) -> None:
        self._start = start
        self._tries = tries
        self._reader = Reader()
        self._call = start(0, "", tries.time_left_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    @property
    def completion(self) -> Completion:
        return self._reader.completion

    @property
    def prompt(self) -> PromptEcho | None:
        """The prompt, if it was asked for and has come."""
        return self._reader.prompt

    def __iter__(self) -> Iterator[Piece]:
        """Raises an error of `ssd.core.errors` when the server refuses or fails."""
        while True:
            try:
                for response in self._call:
                    piece = self._reader.take(response)
                    self._tries.went_on()
                    if piece is not None:
                        yield piece
                break
            except grpc.RpcError as failure:
                error = error_of_call(failure)
                pause_s = self._tries.pause_after(error, has_begun=self._reader.has_begun)
                if pause_s is None:
                    raise error from failure
                time.sleep(pause_s)
                address = error.address if isinstance(error, OwnedElsewhere) else ""
                num_tokens = self._reader.num_token_ids
                self._call = self._start(num_tokens, address, self._tries.time_left_s)
        self._reader.check_end()

    def read(self) -> str:
        """The whole text of the first answer; the pieces are spent."""
        return "".join(piece.text for piece in self if piece.index == 0)

    def cancel(self) -> None:
        """Stop generating; the server frees what it held."""
        self._call.cancel()


class Client:
    """A connection to a coordinator; `with` closes it."""

    def __init__(
        self,
        address: str,
        *,
        api_key: str | None = None,
        tls: Tls | None = None,
        cluster_token: str | None = None,
        max_retries: int = _MAX_RETRIES,
    ) -> None:
        self._tls = tls
        self._metadata = Identity(api_key, cluster_token).metadata
        self._max_retries = max_retries
        self._channels: list[grpc.Channel] = []
        self._dial(address)

    def _dial(self, address: str) -> None:
        self._address = address
        options = [*channel_options(), *(self._tls.options() if self._tls else [])]
        channel = (
            grpc.insecure_channel(address, options)
            if self._tls is None
            else grpc.secure_channel(address, self._tls.credentials(), options)
        )
        self._generation = generation_pb2_grpc.GenerationServiceStub(channel)
        self._registry = registry_pb2_grpc.RegistryServiceStub(channel)
        self._channels.append(channel)

    @property
    def address(self) -> str:
        """The coordinator's, as it was given or as another coordinator said."""
        return self._address

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

    def generate(self, prompt: Prompt, options: Options | None = None) -> Generation:
        """Start generating from a text, token ids or a conversation."""
        chosen = options or Options()
        chosen = resumable(chosen) if chosen.resume_s else chosen
        request = build_request(prompt, chosen)
        metadata = (*self._metadata, *chosen.metadata)
        tries = Tries(
            max_retries=self._max_retries,
            timeout_s=chosen.timeout_s,
            resume_s=chosen.resume_s,
        )

        def start(num_tokens: int, address: str, timeout_s: float | None) -> Any:
            if chosen.resume_s:
                request.resume_from = num_tokens
            if address and address != self._address:
                self._dial(address)  # the request's own coordinator: it is asked from now on
            return self._generation.Generate(request, timeout=timeout_s, metadata=metadata)

        return Generation(start, tries)

    def tokenize(self, prompt: str | Sequence[Message]) -> tuple[int, ...]:
        """The ids that `generate` would make of a text or a conversation."""
        request = (
            generation_pb2.TokenizeRequest(text=prompt)
            if isinstance(prompt, str)
            else generation_pb2.TokenizeRequest(chat=chat_messages(prompt))
        )
        return tuple(self._ask(self._generation.Tokenize, request).token_ids)

    def detokenize(self, token_ids: Sequence[int], *, keep_special_tokens: bool = False) -> str:
        request = generation_pb2.DetokenizeRequest(
            token_ids=token_ids, keep_special_tokens=keep_special_tokens
        )
        return str(self._ask(self._generation.Detokenize, request).text)

    def model_info(self) -> generation_pb2.GetModelInfoResponse:
        """Raises Unavailable while no verifier is attached."""
        request = generation_pb2.GetModelInfoRequest()
        info: generation_pb2.GetModelInfoResponse = self._ask(
            self._generation.GetModelInfo, request
        )
        return info

    def cancel(self, request_id: str) -> None:
        """Raises UnknownSession when no such request of ours runs."""
        self._ask(self._generation.Cancel, generation_pb2.CancelRequest(request_id=request_id))

    def drain(self, worker: str, *, undo: bool = False) -> int:
        """Take a worker out of use, or put it back; how many sessions stay there until they end.

        Raises:
            UnknownSession: the coordinator knows no such worker.
        """
        request = registry_pb2.DrainRequest(name=worker, undo=undo)
        return int(self._ask(self._registry.Drain, request).num_staying)

    def dump(self, session_id: str, *, with_tokens: bool = False) -> tuple[bytes, ...]:
        """The flight records of a session; raises UnknownSession when none are kept."""
        request = registry_pb2.DumpSessionRequest(session_id=session_id, with_tokens=with_tokens)
        return tuple(self._ask(self._registry.DumpSession, request).records)

    def status(self) -> registry_pb2.GetStatusResponse:
        """Which workers and sessions there are; raises errors.Unavailable without a server."""
        status: registry_pb2.GetStatusResponse = self._ask(
            self._registry.GetStatus, registry_pb2.GetStatusRequest()
        )
        return status

    def _ask(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=_SHORT_CALL_S, metadata=self._metadata)
        except grpc.RpcError as error:
            raise error_of_call(error) from error
