"""The verifier's end of `Serve`: decode, post to the engine, encode.

A stream is one coordinator, which owns the sessions it opened. When the stream ends they stand
still, with their KV: a coordinator that comes back within the lease goes on with them, also when it
was restarted meanwhile, and one that does not has lost them here. Several coordinators may
share a verifier and know nothing of each other's request ids, so inside this process, and to the
drafters, a session is named by its coordinator and its id together.
"""

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import grpc
import structlog

from ssd.core.credit import Credit
from ssd.core.errors import ProtocolError
from ssd.core.flight_recorder import FlightRecorder, Segment
from ssd.core.ids import Epoch, SessionId
from ssd.core.ledger import Ledger
from ssd.core.messages import Close, Open, Refused, Resume
from ssd.core.session_names import is_of_request
from ssd.core.verifier_flight import Checkpoint, Event
from ssd.core.verifier_outputs import Output, ToCoordinator, ToDrafter
from ssd.engine.engine_thread import EngineThread
from ssd.tokenizer.chat_format import ChatFormat
from ssd.v1 import verifier_pb2, verifier_pb2_grpc
from ssd.wire.accepted_stream import run_accepted
from ssd.wire.envelopes import (
    AssignDrafters,
    Hello,
    Ping,
    Pong,
    VerifierOrder,
    VerifierReport,
    decode_verifier_order,
    encode_verifier_reports,
)
from ssd.wire.flight_file import pack
from ssd.wire.hello import Capabilities, check_version, encode_hello
from ssd.wire.outbox import Outbox, OutboxOverflow
from verifier_service.drafter_links import DrafterLinks
from verifier_service.machine import VerifierMachine
from verifier_service.owned import disowned, owned
from verifier_service.telemetry import VerifierTelemetry

_BOUND = 65_536  # reports that may wait for a coordinator; commits are bounded by max_tokens anyway
Record = Sequence[Segment[Checkpoint, Event]]
log = structlog.get_logger()


class _Stream:
    """One coordinator's stream; `owner` is its name in this process.

    `instance_id` is who it says it is, until its first order, which proves that it accepted us.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.instance_id = ""
        self.outbox: Outbox[VerifierReport] = Outbox(_BOUND)


class VerifierServicer(verifier_pb2_grpc.VerifierServiceServicer):
    """All streams of one verifier; everything but `deliver` runs on the event loop."""

    def __init__(
        self, machine: VerifierMachine, me: Capabilities, tokenizer_json: str, *, lease_s: float
    ) -> None:
        self.engine: EngineThread[Output]
        self.links: DrafterLinks
        self.telemetry: VerifierTelemetry
        self.flights: FlightRecorder[SessionId, Checkpoint, Event]
        self.num_dropped = 0
        self._machine = machine
        self._me = me
        self._tokenizer_json = tokenizer_json
        self.chat = ChatFormat()
        self._lease_s = lease_s
        self._numbers = itertools.count(1)
        self._streams: dict[str, _Stream] = {}
        self._names: dict[str, str] = {}  # of coordinators that said who they are
        self._leases: dict[str, asyncio.TimerHandle] = {}  # of coordinators that are away
        self._loop = asyncio.get_running_loop()

    def deliver(self, outputs: list[Output]) -> None:
        """Take the engine's outputs; called on its thread."""
        self._loop.call_soon_threadsafe(self._route, outputs)

    async def Serve(  # noqa: N802 (the name is the protocol's)
        self, requests: AsyncIterator[verifier_pb2.ServeRequest], context: Any
    ) -> None:
        stream = _Stream(f"c{next(self._numbers)}")
        self._streams[stream.owner] = stream
        stream.outbox.put([encode_hello(self._me)])
        try:
            await run_accepted(
                requests,
                context,
                stream.outbox,
                take=lambda request: self._take_request(stream, request),
                encode=encode_verifier_reports,
                silent_limit_s=self._lease_s,
            )
        finally:
            self._leave(stream)

    async def GetTokenizer(  # noqa: N802 (the name is the protocol's)
        self, request: verifier_pb2.GetTokenizerRequest, context: Any
    ) -> verifier_pb2.GetTokenizerResponse:
        return verifier_pb2.GetTokenizerResponse(
            tokenizer_json=self._tokenizer_json,
            chat_template=self.chat.template,
            bos_token=self.chat.bos_token,
            eos_token=self.chat.eos_token,
        )

    async def GetFlightRecords(  # noqa: N802 (the name is the protocol's)
        self, request: verifier_pb2.GetFlightRecordsRequest, context: Any
    ) -> verifier_pb2.GetFlightRecordsResponse:
        records = await self._records_of(request.session_id, has_owner=request.has_owners)
        if not records:
            words = f"no record of a session {request.session_id} is kept here"
            await context.abort(grpc.StatusCode.NOT_FOUND, words)
        packed = [
            pack(request.session_id, each, reason="asked", with_tokens=request.with_tokens)
            for each in records
        ]
        return verifier_pb2.GetFlightRecordsResponse(records=packed)

    async def _records_of(self, request_id: str, *, has_owner: bool) -> list[Record]:
        """What is kept of a client's request, under whichever coordinators it ran."""
        answer: asyncio.Future[list[Record]] = self._loop.create_future()
        flights = self.flights

        def look() -> list[Output]:
            found = [
                flights.record_of(name)
                for name in flights.known_names
                if is_of_request(name.partition("/")[2], request_id, has_owner=has_owner)
            ]
            self._loop.call_soon_threadsafe(answer.set_result, found)
            return []

        self.engine.post(look)
        return await answer

    def _take_request(self, stream: _Stream, request: verifier_pb2.ServeRequest) -> None:
        for message in request.orders:
            try:
                order = decode_verifier_order(message)
            except ProtocolError as error:
                self.num_dropped += 1
                log.warning("order dropped", owner=stream.owner, reason=str(error))
                self._refuse_open(stream, message, error)
                continue
            if order is not None:
                self._take(stream, order)

    def _refuse_open(
        self, stream: _Stream, message: verifier_pb2.VerifierOrder, error: ProtocolError
    ) -> None:
        """Say so when a session cannot be opened: a client waits for it."""
        if message.HasField("open"):
            opening = message.open
            refusal = Refused(
                SessionId(opening.session_id),
                Epoch(opening.epoch),
                type(error).__name__,
                str(error),
            )
            stream.outbox.put([refusal])

    def _take(self, stream: _Stream, order: VerifierOrder) -> None:
        if isinstance(order, Hello):
            check_version(order)
            stream.instance_id = order.instance_id
            return
        if stream.instance_id:
            self._introduce(stream)
        core, owner = self._machine.core, stream.owner
        match order:
            case Open():
                opening = replace(order, session_id=owned(order.session_id, owner))
                self.telemetry.opened(opening)
                self.engine.post(lambda: core.open(opening, owner=owner))
            case Resume():
                resuming = replace(order, session_id=owned(order.session_id, owner))
                self.engine.post(lambda: core.resume(resuming, owner=owner))
            case Close():
                closing = replace(order, session_id=owned(order.session_id, owner))
                self.telemetry.closed(closing)
                self.engine.post(lambda: core.close(closing))
            case AssignDrafters():
                self.links.assign(order.addresses, owner=owner)
            case Ping():
                self._answer(stream, order)

    def _answer(self, stream: _Stream, ping: Ping) -> None:
        """A sign of life at once; the books follow when the engine gets to it."""
        core, owner = self._machine.core, stream.owner
        now = time.monotonic_ns()
        pong = Pong(
            number=ping.number,
            num_steps=core.num_rounds,
            num_sessions=len(core.sessions),
            origin_ns=ping.origin_ns,
            receive_ns=now,
            transmit_ns=now,
        )
        stream.outbox.put([pong])
        self.engine.post(lambda: self._report_ledger(owner, ping.number))

    def _report_ledger(self, owner: str, number: int) -> list[Output]:
        """On the engine's thread, and sent in order with what it says of its sessions."""
        core = self._machine.core
        entries = core.ledger(owner)
        credit = Credit.share(
            sessions=core.limits.max_sessions - len(core.sessions),
            slots=core.limits.kv_slots - core.num_reserved_slots,
            num_others=len(core.sessions) - len(entries),
            num_owners=len(self._streams),
        )
        return [ToCoordinator(owner, Ledger(number, entries, credit))]

    def _introduce(self, stream: _Stream) -> None:
        """Give the stream its coordinator's name, which an earlier stream of it may have had."""
        del self._streams[stream.owner]
        stream.owner = self._names.setdefault(stream.instance_id, stream.owner)
        stream.instance_id = ""
        earlier = self._streams.get(stream.owner)
        self._streams[stream.owner] = stream
        if earlier is not None:  # its end was not noticed yet
            earlier.outbox.close()
            self.engine.post(lambda: self._machine.core.owner_away(stream.owner))
        if (lease := self._leases.pop(stream.owner, None)) is not None:
            lease.cancel()
        log.info("coordinator attached", owner=stream.owner)

    def _leave(self, stream: _Stream) -> None:
        owner = stream.owner
        if self._streams.get(owner) is not stream:
            return  # a later stream of the same coordinator goes on with its sessions
        del self._streams[owner]
        log.info("coordinator left", owner=owner)
        if owner not in self._names.values():  # without a name it cannot come back
            self._forget(owner)
            return
        self.engine.post(lambda: self._machine.core.owner_away(owner))
        self._leases[owner] = self._loop.call_later(self._lease_s, self._forget, owner)

    def _forget(self, owner: str) -> None:
        """A coordinator is gone for good, and everything here that was its own."""
        if self._leases.pop(owner, None) is not None:
            log.warning("coordinator did not come back", owner=owner, lease_s=self._lease_s)
        self._names = {each: name for each, name in self._names.items() if name != owner}
        self.links.forget(owner)
        self.engine.post(lambda: self._machine.core.owner_lost(owner))

    def _route(self, outputs: list[Output]) -> None:
        """Drafters first: they can use the time. One wire message per round and stream."""
        self.links.send(output for output in outputs if isinstance(output, ToDrafter))
        told = [output for output in outputs if isinstance(output, ToCoordinator)]
        by_owner: defaultdict[str, list[VerifierReport]] = defaultdict(list)
        for output in told:
            by_owner[output.owner].append(disowned(output.message, output.owner))
        for owner, reports in by_owner.items():
            self._put(owner, reports)
        self.telemetry.reported([output.message for output in told])

    def _put(self, owner: str, reports: Sequence[VerifierReport]) -> None:
        stream = self._streams.get(owner)
        if stream is None:
            return
        try:
            stream.outbox.put(reports)
        except OutboxOverflow:
            log.warning("coordinator reads too slowly", owner=owner)
            stream.outbox.close()
