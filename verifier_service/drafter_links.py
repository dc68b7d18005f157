"""The verifier's streams to its drafters: one to each that the coordinator assigned."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import structlog

from ssd.core.drafter_kind import DrafterKind
from ssd.core.errors import ProtocolError
from ssd.core.ledger import Ledger
from ssd.core.messages import Grow, Need, Refused
from ssd.core.peer_clock import offset_of, on_our_clock
from ssd.core.verifier_outputs import Output, ToDrafter
from ssd.v1 import drafter_pb2_grpc
from ssd.wire.checksums import CheckedChannel
from ssd.wire.delay_line import DelayLine
from ssd.wire.dialed_stream import DialedStream, StreamKind, StreamTimeouts
from ssd.wire.envelopes import (
    DrafterOrder,
    DrafterReport,
    decode_drafter_report,
    encode_drafter_orders,
)
from ssd.wire.hello import Capabilities, encode_hello, why_not_a_pair
from verifier_service.machine import VerifierMachine

_BOUND = 4096  # orders that may wait for a drafter before it is let go
_KIND: StreamKind[DrafterOrder, DrafterReport] = StreamKind(
    open_call=lambda channel: drafter_pb2_grpc.DrafterServiceStub(
        CheckedChannel(channel)
    ).Speculate(),
    encode=encode_drafter_orders,
    decode=decode_drafter_report,
    bound=_BOUND,
)
log = structlog.get_logger()

Post = Callable[[Callable[[], list[Output]]], None]


class DrafterLinks:
    """One dialed stream per assigned drafter; lives on the event loop."""

    def __init__(
        self,
        machine: VerifierMachine,
        post: Post,
        *,
        me: Capabilities,
        timeouts: StreamTimeouts,
        delay_s: float = 0.0,
    ) -> None:
        """Messages other than heartbeats are held back for `delay_s`, each way."""
        self._machine = machine
        self._post = post
        self._me = me
        self._timeouts = timeouts
        self._delay_s = delay_s
        self._links: dict[str, _DrafterLink] = {}
        self._assigned: dict[str, frozenset[str]] = {}  # by coordinator

    def assign(self, addresses: Iterable[str], *, owner: str) -> None:
        """Dial those that are new, let go of those that no coordinator names any more."""
        self._assigned[owner] = frozenset(addresses)
        self._apply()

    def forget(self, owner: str) -> None:
        """A coordinator is gone, and what it assigned with it."""
        if self._assigned.pop(owner, None) is not None:
            self._apply()

    def _apply(self) -> None:
        wanted = set().union(*self._assigned.values())
        for address in self._links.keys() - wanted:
            self._links.pop(address).close()
        for address in wanted - self._links.keys():
            self._links[address] = _DrafterLink(address, self)

    def send(self, outputs: Iterable[ToDrafter]) -> None:
        """Pass on orders, one wire message per drafter."""
        orders = list(outputs)
        for address, link in self._links.items():
            mine = [each.message for each in orders if each.drafter_id in (None, address)]
            if mine:
                link.send(mine)

    def clock_offset_ns(self) -> int | None:
        """A drafter's clock minus ours, of the first that is attached; None without any."""
        attached = (each for each in self._links.values() if each.stream.is_attached)
        first = next(attached, None)
        return None if first is None else first.clock_offset_ns

    @property
    def num_dropped(self) -> int:
        """Reports that could not be read."""
        return sum(link.stream.num_dropped for link in list(self._links.values()))

    async def close(self) -> None:
        tasks = [link.close() for link in self._links.values()]
        self._links.clear()
        await asyncio.gather(*tasks, return_exceptions=True)


class _DrafterLink:
    """Listens to one drafter and turns what it says into events of the core."""

    def __init__(self, address: str, links: DrafterLinks) -> None:
        self.address = address
        self._links = links
        self._core = links._machine.core
        self._is_up = False
        self._reason = ""
        self._offset_ns = 0
        self._kind = DrafterKind.MODEL
        self.stream: DialedStream[DrafterOrder, DrafterReport] = DialedStream(
            address, _KIND, self, hello=encode_hello(links._me), timeouts=links._timeouts
        )
        self._delays = DelayLine(links._delay_s), DelayLine(links._delay_s)
        self._task = asyncio.create_task(self.stream.run())

    def send(self, orders: Sequence[DrafterOrder]) -> None:
        self._delays[0].put(lambda: self.stream.send(orders))

    def close(self) -> asyncio.Task[None]:
        self._task.cancel()
        for line in self._delays:
            line.close()
        self.lost("no longer assigned")
        return self._task

    def attached(self, peer: Capabilities) -> None:
        reason = why_not_a_pair(peer, self._links._me)
        if reason is not None:
            raise ProtocolError(reason)
        self._is_up = True
        self._reason = ""
        kind = self._kind = DrafterKind.MODEL if peer.drafter is None else peer.drafter.kind
        log.info("drafter attached", address=self.address, draft=peer.model_name, kind=kind)
        self._links._post(lambda: self._core.drafter_attached(self.address, kind))

    def received(self, report: DrafterReport) -> None:
        self._delays[1].put(lambda: self._take(report))

    def _take(self, report: DrafterReport) -> None:
        match report:
            case Grow():
                offset_ns = self._offset_ns
                if offset_ns:
                    report = replace(report, spans=on_our_clock(report.spans, offset_ns))
                self._links._post(lambda: self._grow(report))
            case Need():
                self._links._post(lambda: self._core.need(report, drafter_id=self.address))
            case Refused():
                self._links._post(
                    lambda: self._core.drafter_refused(report, drafter_id=self.address)
                )
            case Ledger():  # one follows each heartbeat
                self._offset_ns = self.clock_offset_ns or 0
                self._links._post(
                    lambda: self._core.drafter_ledger(report, drafter_id=self.address)
                )

    def lost(self, reason: str) -> None:
        if reason != self._reason:
            self._reason = reason
            log.warning("drafter not attached", address=self.address, reason=reason)
        if self._is_up:
            self._is_up = False
            self._links._post(lambda: self._core.drafter_lost(self.address))

    @property
    def clock_offset_ns(self) -> int | None:
        return offset_of(self.stream.clock_samples)

    def _grow(self, report: Grow) -> list[Output]:
        return self._core.grow(report, now=self._links._machine.now(), kind=self._kind)
