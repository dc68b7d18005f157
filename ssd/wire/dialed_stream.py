"""The dialing end of a stream between two services, kept up until it is cancelled.

Both streams of the project work alike: hello both ways, then batches of orders out and of reports
in, and a heartbeat. A peer that says nothing for `peer_dead_s` counts as dead; the stream is
dropped and dialed again. What was in flight is lost with it: the sessions' owner opens them anew.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import grpc
import grpc.aio
import structlog

from ssd.core.clock_offset import ClockSample
from ssd.core.errors import ProtocolError
from ssd.v1 import common_pb2
from ssd.wire.channels import open_channel
from ssd.wire.checksums import Mangled
from ssd.wire.hello import Capabilities, decode_hello
from ssd.wire.outbox import Outbox, OutboxOverflow
from ssd.wire.security import CLEAR, Security

log = structlog.get_logger()
Order = TypeVar("Order")
Report = TypeVar("Report")
Heard = TypeVar("Heard", contravariant=True)
_FIRST_RETRY_S = 0.1
_LAST_RETRY_S = 1.0
_CLOCK_SAMPLES = 64  # of the last heartbeats


class PeerSilent(Exception):
    """Nothing was heard from the peer for too long."""


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """Seconds: between heartbeats, until silence means death, and for the first hello.

    And how the peer is trusted.
    """

    heartbeat_s: float
    peer_dead_s: float
    connect_s: float
    security: Security = CLEAR


@dataclass(frozen=True, slots=True)
class StreamKind(Generic[Order, Report]):
    """What differs between the two streams: the call and the envelopes."""

    open_call: Callable[[grpc.aio.Channel], Any]
    encode: Callable[[Iterable[Order]], Any]
    decode: Callable[[Any], Report | None]
    bound: int  # orders that may wait before the peer counts as too slow


class Listener(Protocol[Heard]):
    """Who cares about one dialed stream. All calls come from the stream's event loop."""

    def attached(self, peer: Capabilities) -> None:
        """The peer said hello. Raises ProtocolError to refuse it."""

    def received(self, report: Heard) -> None:
        """A report other than hello and pong arrived."""

    def lost(self, reason: str) -> None:
        """The stream ended, or could not be opened; it will be dialed again."""


class DialedStream(Generic[Order, Report]):
    """One stream to one address. `run` keeps it up; `send` never waits."""

    def __init__(
        self,
        address: str,
        kind: StreamKind[Order, Report],
        listener: Listener[Report],
        *,
        hello: common_pb2.Hello,
        timeouts: StreamTimeouts,
    ) -> None:
        self.address = address
        self.num_dropped = 0  # malformed reports
        self.peer_steps = 0  # the peer engine's step counter, from its heartbeats
        self.num_pings = 0  # over all streams to this address
        self.clock_samples: deque[ClockSample] = deque(maxlen=_CLOCK_SAMPLES)
        self.is_attached = False
        self._kind = kind
        self._listener = listener
        self._hello = hello
        self._timeouts = timeouts
        self._outbox: Outbox[Any] | None = None
        self._heard_at = 0.0

    @property
    def best_clock_sample(self) -> ClockSample | None:
        """The last heartbeat that travelled fastest: its clock offset is the surest."""
        return min(self.clock_samples, key=lambda each: each.round_trip_ns, default=None)

    def send(self, orders: Iterable[Order]) -> None:
        """Queue orders; without a stream, or when the peer is too slow, they are lost with it."""
        if self._outbox is None:
            return
        try:
            self._outbox.put(orders)
        except OutboxOverflow:
            self._outbox.close()
            self._outbox = None

    async def run(self) -> None:
        """Dial, serve, and dial again, until cancelled."""
        retry_s = _FIRST_RETRY_S
        while True:
            reason = await self._attempt()
            retry_s = _FIRST_RETRY_S if self.is_attached else min(2 * retry_s, _LAST_RETRY_S)
            self.is_attached = False
            self._outbox = None
            self._listener.lost(reason)
            _raise_if_cancelled()
            await asyncio.sleep(retry_s)

    async def _attempt(self) -> str:
        """One stream from hello to end; why it ended."""
        try:
            async with open_channel(self.address, self._timeouts.security) as channel:
                await self._serve(channel)
        except ExceptionGroup as group:
            return _reason(group.exceptions[0])
        # Want of memory may strike anywhere, and costs this stream, but not the next.
        except Exception as error:
            return _reason(error)
        return "the peer ended the stream"

    async def _serve(self, channel: grpc.aio.Channel) -> None:
        call = self._kind.open_call(channel)
        outbox: Outbox[Any] = Outbox(self._kind.bound)
        outbox.put([self._hello])
        self._heard_at = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as tasks:
            helpers = [
                tasks.create_task(self._write(call, outbox)),
                tasks.create_task(self._beat(outbox)),
            ]
            try:
                await self._read(call, outbox)
            finally:
                for helper in helpers:
                    helper.cancel()
                call.cancel()

    async def _read(self, call: Any, outbox: Outbox[Any]) -> None:
        async for response in call:
            self._heard_at = asyncio.get_running_loop().time()
            if isinstance(response, Mangled):
                raise ProtocolError(response.reason)
            for message in response.reports:
                try:
                    report = self._kind.decode(message)
                except ProtocolError:
                    self.num_dropped += 1
                    continue
                self._take(report, outbox)

    def _take(self, report: Report | None, outbox: Outbox[Any]) -> None:
        if isinstance(report, common_pb2.Hello):
            if not self.is_attached:  # a repeated hello says nothing new
                self._greet(report, outbox)
        elif isinstance(report, common_pb2.Pong):
            self._take_pong(report)
        elif report is not None and self.is_attached:
            self._listener.received(report)

    def _take_pong(self, pong: common_pb2.Pong) -> None:
        self.peer_steps = pong.num_steps
        if pong.transmit_ns:  # a peer of an earlier version sends no times
            sample = ClockSample(
                pong.origin_ns, pong.receive_ns, pong.transmit_ns, time.monotonic_ns()
            )
            self.clock_samples.append(sample)

    def _greet(self, hello: common_pb2.Hello, outbox: Outbox[Any]) -> None:
        peer = decode_hello(hello)
        self._outbox = outbox
        self._listener.attached(peer)
        self.is_attached = True  # not before: a refused peer is dialed again ever more seldom

    async def _write(self, call: Any, outbox: Outbox[Any]) -> None:
        async for batch in outbox.batches():
            try:
                await call.write(self._kind.encode(batch))
            except asyncio.InvalidStateError:
                return  # the call has ended, and its reader learns why
        raise PeerSilent(f"{self.address} reads too slowly")

    async def _beat(self, outbox: Outbox[Any]) -> None:
        clock = asyncio.get_running_loop().time
        beat_at = clock()
        while True:
            if clock() - beat_at > 2 * self._timeouts.heartbeat_s:
                # We were late ourselves (stopped, or very busy), and what the peer said meanwhile
                # is still to be read: its silence is counted from here.
                self._heard_at = clock()
            beat_at = clock()
            limit_s = self._timeouts.peer_dead_s if self.is_attached else self._timeouts.connect_s
            silent_s = clock() - self._heard_at
            if silent_s > limit_s:
                raise PeerSilent(f"nothing heard from {self.address} for {silent_s:.1f} s")
            if self.is_attached:
                self.num_pings += 1
                ping = common_pb2.Ping(number=self.num_pings, origin_ns=time.monotonic_ns())
                outbox.put([ping])
            await asyncio.sleep(self._timeouts.heartbeat_s)


def _reason(error: Exception) -> str:
    """Why a stream ended. What has no name here is a bug: it is logged, and costs this stream."""
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    if isinstance(error, ProtocolError | PeerSilent | OutboxOverflow | OSError):
        return str(error)
    log.error("stream failed", exc_info=error)
    return f"{type(error).__name__}: {error}"


def _raise_if_cancelled() -> None:
    """A task group drops a cancellation that comes together with an error of its own."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
