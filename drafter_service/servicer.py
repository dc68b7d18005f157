"""The drafter's end of `Speculate`: decode, post to the engine, encode.

A stream is one verifier; its sessions are known by the stream's name and go when it ends. The
engine never waits for a stream: one that falls behind is cut off.
"""

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import Any

import structlog

from drafter_service.drafting import Drafting
from drafter_service.telemetry import DrafterTelemetry
from ssd.core.drafter_flight import DraftAt, Event
from ssd.core.drafter_outputs import Output, ToVerifier
from ssd.core.errors import ProtocolError
from ssd.core.flight_recorder import Segment
from ssd.core.ids import SessionId
from ssd.core.ledger import Ledger
from ssd.core.messages import Close, Commit, Open, Rates
from ssd.core.recorded_drafter import DrafterFlights
from ssd.core.session_names import is_of_request
from ssd.engine.engine_thread import EngineThread
from ssd.v1 import drafter_pb2, drafter_pb2_grpc
from ssd.wire.accepted_stream import run_accepted
from ssd.wire.envelopes import (
    DrafterOrder,
    DrafterReport,
    Hello,
    Ping,
    Pong,
    decode_drafter_order,
    encode_drafter_reports,
)
from ssd.wire.flight_file import DRAFTER, pack
from ssd.wire.hello import Capabilities, decode_hello, encode_hello, why_not_a_pair
from ssd.wire.outbox import Outbox, OutboxOverflow

_BOUND = 4096  # reports that may wait for one verifier
Record = tuple[SessionId, Sequence[Segment[DraftAt, Event]]]
"""A session's name at its verifier, and what is kept of it."""
log = structlog.get_logger()


class DrafterServicer(drafter_pb2_grpc.DrafterServiceServicer):
    """All streams of one drafter; everything but `deliver` runs on the event loop."""

    def __init__(
        self,
        machine: Drafting,
        me: Capabilities,
        special_token_ids: Sequence[int],
        *,
        lease_s: float,
    ) -> None:
        self.engine: EngineThread[Output]
        self.telemetry: DrafterTelemetry
        self.flights: DrafterFlights
        self.num_dropped = 0
        self._machine = machine
        self._me = me
        self._special_token_ids = tuple(special_token_ids)
        self._lease_s = lease_s
        self._numbers = itertools.count(1)
        self._outboxes: dict[str, Outbox[DrafterReport]] = {}
        self._loop = asyncio.get_running_loop()

    def deliver(self, outputs: list[Output]) -> None:
        """Take the engine's outputs; called on its thread."""
        self._loop.call_soon_threadsafe(self._route, outputs)

    @property
    def num_peers(self) -> int:
        """Verifiers whose streams are open."""
        return len(self._outboxes)

    async def Speculate(  # noqa: N802 (the name is the protocol's)
        self, requests: AsyncIterator[drafter_pb2.SpeculateRequest], context: Any
    ) -> None:
        peer = f"v{next(self._numbers)}"
        outbox: Outbox[DrafterReport] = Outbox(_BOUND)
        self._outboxes[peer] = outbox
        outbox.put([encode_hello(self._me)])
        try:
            await run_accepted(
                requests,
                context,
                outbox,
                take=lambda request: self._take_request(peer, request),
                encode=encode_drafter_reports,
                silent_limit_s=self._lease_s,
            )
        finally:
            del self._outboxes[peer]
            self.engine.post(lambda: self._machine.peer_lost(peer))
            self.telemetry.peer_lost(peer)
            log.info("verifier left", peer=peer)

    async def GetDraftRecords(  # noqa: N802 (the name is the protocol's)
        self, request: drafter_pb2.GetDraftRecordsRequest, context: Any
    ) -> drafter_pb2.GetDraftRecordsResponse:
        answer: asyncio.Future[list[Record]] = self._loop.create_future()

        def look() -> list[Output]:
            found = [
                (name, self.flights.record_of((peer, name)))
                for peer, name in self.flights.known_names
                if is_of_request(
                    name.partition("/")[2], request.session_id, has_owner=request.has_owners
                )
            ]
            self._loop.call_soon_threadsafe(answer.set_result, found)
            return []

        self.engine.post(look)
        packed = [
            pack(name, record, reason="asked", with_tokens=request.with_tokens, role=DRAFTER)
            for name, record in await answer
        ]
        return drafter_pb2.GetDraftRecordsResponse(records=packed)

    def _take_request(self, peer: str, request: drafter_pb2.SpeculateRequest) -> None:
        for message in request.orders:
            try:
                order = decode_drafter_order(message)
            except ProtocolError as error:
                self.num_dropped += 1
                log.warning("order dropped", peer=peer, reason=str(error))
                continue
            if order is not None:
                self._take(peer, order)

    def _take(self, peer: str, order: DrafterOrder) -> None:
        core = self._machine.core
        self.telemetry.ordered(peer, order)
        match order:
            case Open():
                self.engine.post(lambda: self._machine.open(order, peer=peer))
            case Commit():
                self.engine.post(lambda: self._machine.commit(order, peer=peer))
            case Close():
                self.engine.post(lambda: [*core.close(order, peer=peer)])
            case Rates():
                self.engine.post(lambda: [*core.rates_updated(order)])
            case Ping():
                self._answer(peer, order)
            case Hello():
                self._greet(peer, decode_hello(order))

    def _answer(self, peer: str, ping: Ping) -> None:
        """A sign of life at once; what is held follows when the engine gets to it."""
        core = self._machine.core
        now = time.monotonic_ns()
        pong = Pong(
            number=ping.number,
            num_steps=core.num_steps,
            num_sessions=len(core.sessions),
            origin_ns=ping.origin_ns,
            receive_ns=now,
            transmit_ns=now,
        )
        self._outboxes[peer].put([pong])
        self.engine.post(lambda: self._report_ledger(peer, ping.number))

    def _report_ledger(self, peer: str, number: int) -> list[Output]:
        """On the engine's thread, and sent in order with what it says of its sessions."""
        return [ToVerifier(peer, Ledger(number, self._machine.core.ledger(peer)))]

    def _greet(self, peer: str, target: Capabilities) -> None:
        """Learn which ids mean something else to this target, or nothing.

        Raises:
            ProtocolError: the draft cannot draft for it.
        """
        reason = why_not_a_pair(self._me, target)
        if reason is not None:
            raise ProtocolError(reason)
        banned = list(range(target.vocab_size, self._me.vocab_size))
        if target.special_digest != self._me.special_digest:
            log.warning("special tokens differ and are not drafted", peer=peer)
            banned += self._special_token_ids
        if banned:
            self.engine.post(lambda: self._machine.ban(banned, peer=peer))
        log.info("verifier attached", peer=peer, target=target.model_name)

    def _route(self, outputs: list[Output]) -> None:
        """One wire message per engine step and stream."""
        by_peer: defaultdict[str, list[DrafterReport]] = defaultdict(list)
        for output in outputs:
            if isinstance(output, ToVerifier):
                by_peer[output.peer].append(output.message)
        for peer, reports in by_peer.items():
            self._put(peer, reports)
            for report in reports:
                self.telemetry.reported(peer, report)

    def _put(self, peer: str, reports: Sequence[DrafterReport]) -> None:
        outbox = self._outboxes.get(peer)
        if outbox is None:
            return
        try:
            outbox.put(reports)
        except OutboxOverflow:
            log.warning("verifier reads too slowly", peer=peer)
            outbox.close()
