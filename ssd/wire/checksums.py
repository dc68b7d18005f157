"""A checksum on every message of a stream between services.

TCP's own is 16 bits, and a flipped bit of a token id still parses. Every token a client sees comes
through these streams, so a message that arrives otherwise than it was sent ends its stream, like a
cut: it is dialed again, and the sessions are opened anew from the books.

The checksum is the last field of the message, number 15, over all bytes before it: any reader of
the protocol may skip it, and a peer that sends none is believed as it is.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from ssd.core.errors import ProtocolError

_TAG = bytes([15 << 3 | 5])  # field 15, four bytes that follow
_LEN = len(_TAG) + 4


@dataclass(frozen=True, slots=True)
class Mangled:
    """What a reader gets in place of a message that is not what was sent."""

    reason: str


Serialize = Callable[[Any], bytes]
Parse = Callable[[bytes], Any]


def seal(payload: bytes) -> bytes:
    """A serialized message with its checksum."""
    return payload + _TAG + zlib.crc32(payload).to_bytes(4, "little")


def check(message: bytes) -> bytes:
    """The message, if it carries no checksum or the right one.

    Raises:
        ProtocolError: it is not what was sent.
    """
    payload, last = message[:-_LEN], message[-_LEN:]
    if last[:1] == _TAG and zlib.crc32(payload).to_bytes(4, "little") != last[1:]:
        raise ProtocolError(f"a message of {len(message)} bytes does not match its checksum")
    return message


class CheckedChannel:
    """A channel for a generated stub; what its streams write is sealed, what they read checked."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def stream_stream(
        self,
        method: str,
        request_serializer: Serialize,
        response_deserializer: Parse,
        **options: Any,
    ) -> Any:
        return self._channel.stream_stream(
            method,
            request_serializer=_sealing(request_serializer),
            response_deserializer=_checking(response_deserializer),
            **options,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


class CheckedStreams(grpc.aio.ServerInterceptor):
    """Seals and checks the streams of a server; calls of other kinds are left alone."""

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or not (handler.request_streaming and handler.response_streaming):
            return handler
        if handler.request_deserializer is None or handler.response_serializer is None:
            return handler  # bytes that somebody else reads
        return grpc.stream_stream_rpc_method_handler(
            handler.stream_stream,
            request_deserializer=_checking(cast(Parse, handler.request_deserializer)),
            response_serializer=_sealing(cast(Serialize, handler.response_serializer)),
        )


def _sealing(serialize: Serialize) -> Serialize:
    return lambda message: seal(serialize(message))


def _checking(parse: Parse) -> Parse:
    """Reads a message; gRPC would log an exception and hand on a None without its words."""

    def read(message: bytes) -> Any:
        try:
            return parse(check(message))
        except (ProtocolError, DecodeError) as error:
            return Mangled(str(error))

    return read
