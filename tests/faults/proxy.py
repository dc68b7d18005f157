"""Stands between two services, speaks real gRPC to both, and loses, bends and cuts what passes.

It knows no message: a call is two directions of bytes. Which message suffers what is decided by a
`Plan` that the test makes; messages are counted over all calls of a direction, so that a fault may
also hit the greeting of the stream that follows a cut one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import grpc
import grpc.aio

from ssd.wire.channels import make_server, open_channel

_HELD_S = 0.05  # a held message goes on by itself when none follows that could overtake it


class Direction(StrEnum):
    """As the dialing side sees it."""

    THERE = "there"
    BACK = "back"


class Fate(StrEnum):
    """What may happen to a message."""

    DROP = "drop"
    DELAY = "delay"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    CORRUPT = "corrupt"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class Fault:
    """The message number `at` of one direction suffers `fate`.

    `amount` is in [0, 1): how long a delay is, as a share of `MAX_DELAY_S`, or which bit flips.
    """

    edge: str
    direction: Direction
    at: int
    fate: Fate
    amount: float = 0.5


MAX_DELAY_S = 0.1


class CutByProxy(Exception):
    """The plan cuts the call here."""


class Plan:
    """The faults of one edge, and how far its messages have been counted."""

    def __init__(self, faults: Sequence[Fault] = ()) -> None:
        self._faults = {(each.direction, each.at): each for each in faults}
        self._counts = dict.fromkeys(Direction, 0)
        self.struck: list[Fault] = []

    def next_fault(self, direction: Direction) -> Fault | None:
        """What the next message of this direction suffers."""
        number = self._counts[direction]
        self._counts[direction] += 1
        fault = self._faults.get((direction, number))
        if fault is not None:
            self.struck.append(fault)
        return fault


class FaultProxy(grpc.GenericRpcHandler):
    """Dial `address` instead of `upstream`. All calls go on as streams: a unary call is one."""

    def __init__(self, upstream: str) -> None:
        self.address = ""
        self.plan = Plan()
        self._server = make_server()
        self._server.add_generic_rpc_handlers((self,))
        self._channel = open_channel(upstream)

    async def start(self) -> None:
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(grace=0)
        await self._channel.close()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = handler_call_details.method

        async def relay(requests: AsyncIterator[bytes], context: Any) -> None:
            await self._relay(method, requests, context)

        return grpc.stream_stream_rpc_method_handler(relay)

    async def _relay(self, method: str, requests: AsyncIterator[bytes], context: Any) -> None:
        call: Any = self._channel.stream_stream(method)()
        there = asyncio.create_task(self._there(requests, call))
        back = asyncio.create_task(self._pump(call, context.write, Direction.BACK))
        try:
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for pump in (there, back):
                pump.cancel()
            ends = await asyncio.gather(there, back, return_exceptions=True)
            call.cancel()
        code, words = _status(ends)
        if code is not grpc.StatusCode.OK:
            await context.abort(code, words)

    async def _there(self, requests: AsyncIterator[bytes], call: Any) -> None:
        await self._pump(requests, call.write, Direction.THERE)
        await call.done_writing()

    async def _pump(
        self,
        messages: AsyncIterator[bytes],
        write: Callable[[bytes], Awaitable[None]],
        direction: Direction,
    ) -> None:
        """Carry messages over, one after the other, each as its fate will have it."""
        held = _Held(write)
        try:
            async for message in messages:
                fault = self.plan.next_fault(direction)
                match fault.fate if fault else None:
                    case Fate.CUT:
                        raise CutByProxy
                    case Fate.DROP:
                        continue
                    case Fate.REORDER:
                        await held.hold(message)
                        continue
                    case Fate.DELAY:
                        assert fault is not None
                        await asyncio.sleep(fault.amount * MAX_DELAY_S)
                    case Fate.CORRUPT:
                        assert fault is not None
                        await write(_flip_bit(message, fault.amount))
                        continue
                    case Fate.DUPLICATE:
                        await write(message)
                await write(message)
                await held.let_go()
            await held.let_go()
        except asyncio.InvalidStateError:
            return  # the other side has ended, and the other pump learns why
        finally:
            held.forget()


class _Held:
    """At most one message, kept until another has overtaken it."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._message: bytes | None = None
        self._timer: asyncio.Task[None] | None = None

    async def hold(self, message: bytes) -> None:
        await self.let_go()
        self._message = message
        self._timer = asyncio.create_task(self._later())

    async def let_go(self) -> None:
        message, self._message = self._message, None
        self.forget()
        if message is not None:
            await self._write(message)

    def forget(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer is not asyncio.current_task():
            timer.cancel()

    async def _later(self) -> None:
        await asyncio.sleep(_HELD_S)
        try:
            await self.let_go()
        except (asyncio.InvalidStateError, grpc.aio.UsageError):
            return  # the call has ended


def _flip_bit(message: bytes, where: float) -> bytes:
    if not message:
        return b"\x01"
    bit = int(where * 8 * len(message))
    flipped = bytearray(message)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


def _status(ends: Sequence[BaseException | None]) -> tuple[grpc.StatusCode, str]:
    """What the dialing side is told."""
    for end in ends:
        if isinstance(end, grpc.aio.AioRpcError):
            return end.code(), end.details() or ""
        if isinstance(end, CutByProxy):
            return grpc.StatusCode.UNAVAILABLE, "cut by the fault proxy"
        if isinstance(end, Exception):
            return grpc.StatusCode.INTERNAL, f"{type(end).__name__}: {end}"
    return grpc.StatusCode.OK, ""
