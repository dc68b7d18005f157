"""The two ends of a stream: dialed again when it breaks, ended with words when refused."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import grpc.aio

from ssd.core.errors import ProtocolError
from ssd.core.ids import Epoch, SessionId
from ssd.core.messages import Close, Need
from ssd.v1 import common_pb2, drafter_pb2, drafter_pb2_grpc
from ssd.wire.accepted_stream import run_accepted
from ssd.wire.channels import make_server
from ssd.wire.dialed_stream import DialedStream, StreamKind, StreamTimeouts
from ssd.wire.envelopes import (
    DrafterOrder,
    DrafterReport,
    decode_drafter_order,
    decode_drafter_report,
    encode_drafter_orders,
    encode_drafter_reports,
)
from ssd.wire.hello import PROTOCOL_VERSION, Capabilities
from ssd.wire.outbox import Outbox
from ssd.wire.ports import bind

HELLO = common_pb2.Hello(protocol_version=PROTOCOL_VERSION, model_name="peer")
NEED = Need(SessionId("s"), Epoch(1), 0)
CLOSE = Close(SessionId("s"), Epoch(1))


def encode_all(reports: Iterable[Any]) -> drafter_pb2.SpeculateResponse:
    """Reports, and what only looks like one."""
    raw = drafter_pb2.DrafterReport
    return drafter_pb2.SpeculateResponse(
        reports=[
            each if isinstance(each, raw) else encode_drafter_reports([each]).reports[0]
            for each in reports
        ]
    )


class Peer(drafter_pb2_grpc.DrafterServiceServicer):
    """The accepting end; says hello, answers pings unless `is_deaf`, remembers the rest."""

    def __init__(self) -> None:
        self.hello = HELLO
        self.is_deaf = False
        self.num_streams = 0
        self.silent_limit_s = 60.0
        self.orders: list[DrafterOrder] = []
        self.outbox: Outbox[Any] = Outbox(10)

    async def Speculate(  # noqa: N802 (the name is the protocol's)
        self, requests: AsyncIterator[drafter_pb2.SpeculateRequest], context: Any
    ) -> None:
        self.num_streams += 1
        self.outbox = Outbox(10)
        self.outbox.put([self.hello])
        await run_accepted(
            requests,
            context,
            self.outbox,
            take=self._take,
            encode=encode_all,
            silent_limit_s=self.silent_limit_s,
        )

    def _take(self, request: drafter_pb2.SpeculateRequest) -> None:
        for message in request.orders:
            order = decode_drafter_order(message)
            if isinstance(order, common_pb2.Ping) and not self.is_deaf:
                self.outbox.put([common_pb2.Pong(number=order.number, num_steps=order.number)])
            elif isinstance(order, Close):
                self.orders.append(order)


class Ear:
    """Listens to a dialed stream."""

    def __init__(self) -> None:
        self.num_attached = 0
        self.reports: list[DrafterReport] = []
        self.reasons: list[str] = []
        self.refusal: str | None = None

    def attached(self, peer: Capabilities) -> None:
        if self.refusal is not None:
            raise ProtocolError(self.refusal)
        self.num_attached += 1

    def received(self, report: DrafterReport) -> None:
        self.reports.append(report)

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)


class Line:
    """A server with a `Peer`, and a stream that dials it."""

    def __init__(self) -> None:
        self.peer, self.ear = Peer(), Ear()

    async def __aenter__(self) -> "Line":
        self._server = make_server()
        drafter_pb2_grpc.add_DrafterServiceServicer_to_server(self.peer, self._server)
        address = bind(self._server, "127.0.0.1", 0)
        await self._server.start()
        kind: StreamKind[DrafterOrder, DrafterReport] = StreamKind(
            open_call=lambda channel: drafter_pb2_grpc.DrafterServiceStub(channel).Speculate(),
            encode=encode_drafter_orders,
            decode=decode_drafter_report,
            bound=20,
        )
        self.stream: DialedStream[DrafterOrder, DrafterReport] = DialedStream(
            address, kind, self.ear, hello=HELLO, timeouts=StreamTimeouts(0.05, 1.0, 2.0)
        )
        self._task = asyncio.create_task(self.stream.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._server.stop(grace=0)

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(30):
            while not condition():
                assert not self._task.done(), "a stream ends only when it is cancelled"
                await asyncio.sleep(0.01)


async def test_orders_and_reports_pass_and_heartbeats_are_counted() -> None:
    async with Line() as line:
        await line.until(lambda: line.stream.is_attached)
        line.stream.send([CLOSE])
        line.peer.outbox.put([NEED])
        await line.until(lambda: line.peer.orders == [CLOSE] and line.ear.reports == [NEED])
        await line.until(lambda: line.stream.peer_steps > 2)


async def test_a_stream_that_the_peer_ends_is_dialed_again() -> None:
    async with Line() as line:
        for count in range(1, 5):
            await line.until(lambda count=count: line.ear.num_attached == count)
            line.peer.outbox.close()
        await line.until(lambda: line.ear.num_attached == 5)
        assert len(line.ear.reasons) >= 4


async def test_a_stream_that_fails_in_any_way_is_dialed_again() -> None:
    """Want of memory may strike where no stream stands yet."""
    async with Line() as line:
        await line.until(lambda: line.ear.num_attached == 1)
        whole, failures = line.stream._kind.open_call, [MemoryError("no more")]

        def open_call(channel: grpc.aio.Channel) -> Any:
            if failures:
                raise failures.pop()
            return whole(channel)

        line.stream._kind = replace(line.stream._kind, open_call=open_call)
        line.peer.outbox.close()
        await line.until(lambda: line.ear.num_attached == 2)
        assert "MemoryError: no more" in line.ear.reasons


async def test_orders_without_a_stream_are_lost_and_harm_nobody() -> None:
    async with Line() as line:
        line.stream.send([CLOSE])
        await line.until(lambda: line.stream.is_attached)
        assert not line.peer.orders


async def test_a_silent_peer_counts_as_dead() -> None:
    async with Line() as line:
        await line.until(lambda: line.stream.is_attached)
        line.peer.is_deaf = True
        await line.until(lambda: line.ear.reasons)
        assert "nothing heard" in line.ear.reasons[0]
        line.peer.is_deaf = False
        await line.until(lambda: line.stream.is_attached and line.ear.num_attached > 1)


async def test_a_peer_too_slow_for_its_orders_is_let_go() -> None:
    async with Line() as line:
        await line.until(lambda: line.stream.is_attached)
        line.stream.send([CLOSE] * 21)
        await line.until(lambda: line.ear.reasons)
        assert "too slowly" in line.ear.reasons[0]
        await line.until(lambda: line.ear.num_attached == 2)


async def test_a_peer_too_slow_for_its_reports_is_told() -> None:
    async with Line() as line:
        await line.until(lambda: line.stream.is_attached)
        line.peer.outbox.close()
        await line.until(lambda: line.ear.reasons)
        assert "RESOURCE_EXHAUSTED: more reports wait" in line.ear.reasons[0]


async def test_a_repeated_hello_attaches_nobody_twice() -> None:
    async with Line() as line:
        await line.until(lambda: line.stream.is_attached)
        line.peer.outbox.put([HELLO, HELLO, NEED])
        await line.until(lambda: line.ear.reports)
        assert line.ear.num_attached == 1


async def test_a_malformed_report_is_counted_and_the_next_one_taken() -> None:
    async with Line() as line:
        await line.until(lambda: line.stream.is_attached)
        line.peer.outbox.put([drafter_pb2.DrafterReport(grow=drafter_pb2.Grow(keys=[1])), NEED])
        await line.until(lambda: line.ear.reports == [NEED])
        assert line.stream.num_dropped == 1
        assert line.ear.num_attached == 1


async def test_a_refused_peer_is_dialed_ever_more_seldom() -> None:
    async with Line() as line:
        line.ear.refusal = "another tokenizer"
        await line.until(lambda: len(line.ear.reasons) == 3)
        assert set(line.ear.reasons) == {"another tokenizer"}
        assert not line.stream.is_attached
        line.ear.refusal = None
        await line.until(lambda: line.stream.is_attached)


async def test_a_peer_of_another_version_is_not_attached() -> None:
    line = Line()
    line.peer.hello = common_pb2.Hello(protocol_version=PROTOCOL_VERSION + 1)
    async with line:
        await line.until(lambda: line.ear.reasons)
        assert f"version {PROTOCOL_VERSION + 1}" in line.ear.reasons[0]
        assert line.ear.num_attached == 0


class _BreakingCall:
    """A call that breaks in the very step in which the stream's task is cancelled."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None

    async def write(self, request: object) -> None:
        pass

    def cancel(self) -> None:
        pass

    def __aiter__(self) -> "_BreakingCall":
        return self

    async def __anext__(self) -> object:
        await asyncio.sleep(0.01)
        assert self.task is not None
        self.task.cancel()
        raise OSError("the connection broke")


async def test_a_stream_that_breaks_while_it_is_closed_is_not_dialed_again() -> None:
    """Else a process whose peers stop together with it would wait for ever for its own end."""
    call = _BreakingCall()
    kind: StreamKind[DrafterOrder, DrafterReport] = StreamKind(
        open_call=lambda channel: call,
        encode=encode_drafter_orders,
        decode=decode_drafter_report,
        bound=20,
    )
    timeouts = StreamTimeouts(0.05, 1.0, 2.0)
    stream = DialedStream("127.0.0.1:9", kind, Ear(), hello=HELLO, timeouts=timeouts)
    call.task = asyncio.create_task(stream.run())
    done, _ = await asyncio.wait({call.task}, timeout=5.0)
    assert done, "it went on"
    assert call.task.cancelled()
