"""The asynchronous client: the blocking one's twin."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio

from ssd.client.blocking import StartCall
from ssd.client.connection import Identity, Tls, Tries, resumable
from ssd.client.request import Message, Options, Prompt, build_request, chat_messages
from ssd.client.result import Completion, Piece, PromptEcho, Reader
from ssd.core.errors import OwnedElsewhere
from ssd.v1 import generation_pb2, generation_pb2_grpc
from ssd.wire.channels import channel_options
from ssd.wire.status import error_of_call

_SHORT_CALL_S = 10.0
_MAX_RETRIES = 3


class AsyncGeneration:
    """A stream of pieces; see `Generation`. Leaving `async with`, or its task's end, cancels it."""

    def __init__(self, start: StartCall, tries: Tries) -> None:
        self._start = start
        self._tries = tries
        self._reader = Reader()
        self._call = start(0, "", tries.time_left_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
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

    async def __aiter__(self) -> AsyncIterator[Piece]:
        """Raises an error of `ssd.core.errors` when the server refuses or fails."""
        while True:
            try:
                async for response in self._call:
                    piece = self._reader.take(response)
                    self._tries.went_on()
                    if piece is not None:
                        yield piece
                break
            except grpc.aio.AioRpcError as failure:
                error = error_of_call(failure)
                pause_s = self._tries.pause_after(error, has_begun=self._reader.has_begun)
                if pause_s is None:
                    raise error from failure
                await asyncio.sleep(pause_s)
                address = error.address if isinstance(error, OwnedElsewhere) else ""
                num_tokens = self._reader.num_token_ids
                self._call = self._start(num_tokens, address, self._tries.time_left_s)
        self._reader.check_end()

    async def read(self) -> str:
        """The whole text of the first answer; the pieces are spent."""
        return "".join([piece.text async for piece in self if piece.index == 0])

    def cancel(self) -> None:
        """Stop generating; the server frees what it held."""
        self._call.cancel()


class AsyncClient:
    """A connection to a coordinator, made inside a running event loop; `async with` closes it."""

    def __init__(
        self,
        address: str,
        *,
        api_key: str | None = None,
        tls: Tls | None = None,
        max_retries: int = _MAX_RETRIES,
    ) -> None:
        self._tls = tls
        self._metadata = Identity(api_key).metadata
        self._max_retries = max_retries
        self._channels: list[grpc.aio.Channel] = []
        self._dial(address)

    def _dial(self, address: str) -> None:
        self._address = address
        options = [*channel_options(), *(self._tls.options() if self._tls else [])]
        channel = (
            grpc.aio.insecure_channel(address, options)
            if self._tls is None
            else grpc.aio.secure_channel(address, self._tls.credentials(), options)
        )
        self._generation = generation_pb2_grpc.GenerationServiceStub(channel)
        self._channels.append(channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    def generate(self, prompt: Prompt, options: Options | None = None) -> AsyncGeneration:
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

        return AsyncGeneration(start, tries)

    async def tokenize(self, prompt: str | Sequence[Message]) -> tuple[int, ...]:
        """The ids that `generate` would make of a text or a conversation."""
        request = (
            generation_pb2.TokenizeRequest(text=prompt)
            if isinstance(prompt, str)
            else generation_pb2.TokenizeRequest(chat=chat_messages(prompt))
        )
        return tuple((await self._ask(self._generation.Tokenize, request)).token_ids)

    async def detokenize(
        self, token_ids: Sequence[int], *, keep_special_tokens: bool = False
    ) -> str:
        request = generation_pb2.DetokenizeRequest(
            token_ids=token_ids, keep_special_tokens=keep_special_tokens
        )
        return str((await self._ask(self._generation.Detokenize, request)).text)

    async def model_info(self) -> generation_pb2.GetModelInfoResponse:
        """Raises Unavailable while no verifier is attached."""
        request = generation_pb2.GetModelInfoRequest()
        info: generation_pb2.GetModelInfoResponse = await self._ask(
            self._generation.GetModelInfo, request
        )
        return info

    async def cancel(self, request_id: str) -> None:
        """Raises UnknownSession when no such request of ours runs."""
        request = generation_pb2.CancelRequest(request_id=request_id)
        await self._ask(self._generation.Cancel, request)

    async def _ask(self, method: Any, request: Any) -> Any:
        try:
            return await method(request, timeout=_SHORT_CALL_S, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise error_of_call(error) from error
