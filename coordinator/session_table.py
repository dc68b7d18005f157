"""The sessions of this coordinator: admitted, placed on a verifier, moved when it is lost.

A session is placed by one operation, `Open` with what is committed and a higher epoch, whatever the
reason: its start, a lost verifier, a gap in the commits, a verifier without room. It only moves
between verifiers of equal fingerprint, because only those continue the same text.

When a stream is cut the verifier may live on with the sessions' KV, so each waits a moment for it:
if it comes back they are resumed, same epoch; if not, they move. With every heartbeat a verifier
says what it holds, and where that differs from the books (`ssd.core.ledger`) the books win.
"""

import asyncio
import bisect
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import structlog

from coordinator.output_text import OutputText
from coordinator.request_watch import RequestWatch
from ssd.core.client_session import Admission, ClientSession, Reconciled
from ssd.core.errors import (
    Cancelled,
    Draining,
    NoCapacity,
    Preempted,
    ProtocolError,
    SessionConflict,
    SsdError,
    Unavailable,
    UnknownSession,
)
from ssd.core.ids import Epoch, SessionId
from ssd.core.ledger import Ledger, LedgerEntry, Verdict, reconcile
from ssd.core.messages import Close, Commit, Finished, Open, Refused, Resume
from ssd.wire.status import error_named

_FULL_RETRY_S = 0.5
log = structlog.get_logger()


class VerifierSeat(Protocol):
    """A verifier that sessions can be placed on."""

    name: str
    fingerprint: str
    instance_id: str  # of the process: a restarted one has another

    @property
    def num_pings(self) -> int:
        """Heartbeats sent so far."""
        ...

    def send(self, orders: Iterable[Open | Resume | Close]) -> None: ...


class MoveReason(StrEnum):
    """Why a session was opened."""

    START = "start"
    FAILOVER = "failover"  # its verifier was lost
    GAP = "gap"  # commits were missing
    LEDGER = "ledger"  # the verifier does not hold it, or holds something else
    PREEMPTION = "preemption"  # it made room for an older one
    DRAIN = "drain"  # its verifier takes leave
    FULL = "full"  # its verifier had no room for it


@dataclass(eq=False, slots=True)
class LiveSession:
    """A request in progress; `changed` is set whenever its books, error or seat change."""

    books: ClientSession
    fingerprint: str
    watch: RequestWatch = field(default_factory=RequestWatch)
    is_running: bool = False  # it had its turn
    seat: VerifierSeat | None = None
    error: SsdError | None = None
    refused_since: float | None = None  # by full verifiers, on the event loop's clock
    away_at: str | None = None  # process whose stream was cut, and which may still have its KV
    may_move: bool = True  # it has waited long enough for that
    opened_at_ping: int = 0  # a ledger for a later heartbeat must know of it
    move_reason: MoveReason = MoveReason.START
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    text: OutputText | None = None  # who only counts tokens needs no text

    def fail(self, error: SsdError) -> None:
        self.error = error
        self.changed.set()


@dataclass(frozen=True, slots=True)
class TableLimits:
    """Sessions that run at once, requests that may wait for one, seconds without a verifier, and
    of those the seconds that are spent on waiting for the one that was lost."""

    max_sessions: int
    max_queue: int
    reopen_s: float
    resume_s: float


class SessionTable:
    """Owns the live sessions; lives on one event loop.

    Verifiers remember the epochs of sessions that ended, and a client may use its request id again,
    also after a restart of the coordinator. So a session starts above all epochs that were used
    before; `epoch_floor` is above those of earlier lives.
    """

    def __init__(self, limits: TableLimits, *, epoch_floor: int = 0) -> None:
        self.sessions: dict[SessionId, LiveSession] = {}
        self.seats: list[VerifierSeat] = []
        self.seats_changed = asyncio.Event()
        self.num_stale = 0
        self.moves: Counter[MoveReason] = Counter()
        self._limits = limits
        self._epoch_floor = Epoch(epoch_floor)
        self._num_running = 0
        self._queue: list[LiveSession] = []  # by priority, then by arrival

    @asynccontextmanager
    async def admitted(
        self,
        admission: Admission,
        fingerprint: str,
        watch: RequestWatch | None = None,
        text: OutputText | None = None,
    ) -> AsyncIterator[LiveSession]:
        """A session for as long as the block runs; closed on the verifier whatever ends it.

        Raises:
            SessionConflict: the id is in use.
            NoCapacity: the queue is full.
            Cancelled: it was cancelled while it waited for its turn.
        """
        session_id = admission.session_id
        if session_id in self.sessions:
            raise SessionConflict(f"request id {session_id} is in use")
        live = LiveSession(
            ClientSession(admission), fingerprint, watch or RequestWatch(), text=text
        )
        live.watch.admitted(live.books)
        live.books.epoch = self._epoch_floor
        self.sessions[session_id] = live
        try:
            await self._wait_for_turn(live)
            live.watch.turn_came()
            try:
                live.is_running = True
                self._place(live)
                yield live
            finally:
                self._leave_seat(live)
                self._pass_turn()
        finally:
            del self.sessions[session_id]
            self._epoch_floor = max(self._epoch_floor, live.books.epoch)

    @property
    def num_running(self) -> int:
        return self._num_running

    @property
    def num_queued(self) -> int:
        return len(self._queue)

    def cancel(self, session_id: SessionId) -> None:
        """End a session with CANCELLED.

        Raises:
            UnknownSession: there is none of that id.
        """
        live = self.sessions.get(session_id)
        if live is None:
            raise UnknownSession(f"no request {session_id} is running here")
        live.fail(Cancelled("cancelled by request"))

    def add_seat(self, seat: VerifierSeat) -> None:
        """A verifier can take sessions: its own are resumed, others that wait are opened."""
        self.seats.append(seat)
        self.seats_changed.set()
        for live in self.sessions.values():
            if not live.is_running or live.seat is not None or live.books.is_finished:
                continue
            if live.away_at == seat.instance_id:
                self._resume(live, seat)
            elif live.may_move:
                self._place(live)

    def remove_seat(self, seat: VerifierSeat) -> None:
        """The stream to a verifier is gone, and perhaps the verifier with it."""
        if seat not in self.seats:
            return
        self.seats.remove(seat)
        self.seats_changed.set()
        for live in self.sessions.values():
            if live.seat is seat:
                live.seat = None
                live.move_reason = MoveReason.FAILOVER
                self._wait_for_return(live, seat.instance_id)

    def compare(self, seat: VerifierSeat, ledger: Ledger) -> None:
        """Hold what a verifier says it has against the books."""
        held = {each.session_id: each for each in ledger.entries}
        here = [live for live in self.sessions.values() if live.seat is seat]
        for live in here:
            entry = held.pop(live.books.admission.session_id, None)
            if live.opened_at_ping < ledger.number and not live.books.is_finished:
                self._follow(live, reconcile(live.books.standing, entry))
        for entry in held.values():
            self._close_stray(seat, entry)

    def take(self, message: Commit | Finished | Refused) -> None:
        """Book what a verifier reports."""
        live = self.sessions.get(message.session_id)
        if live is None or live.books.is_finished:
            self.num_stale += 1
            return
        try:
            self._settle(live, message)
        except ProtocolError as error:
            log.error("session failed", reason=str(error), **live.watch.names)
            live.fail(error)

    async def wait_for_change(self, live: LiveSession) -> None:
        """Until the session has news.

        Raises:
            Unavailable: no verifier of its fingerprint came back in time.
        """
        while not live.changed.is_set():
            limit_s = self._limits.reopen_s if live.seat is None else None
            try:
                async with asyncio.timeout(limit_s):
                    await live.changed.wait()
            except TimeoutError:
                if live.seat is None:
                    raise Unavailable(
                        f"no verifier for this model came back within {limit_s:g} s"
                    ) from None
        live.changed.clear()

    def _settle(self, live: LiveSession, message: Commit | Finished | Refused) -> None:
        match message:
            case Refused():
                if message.epoch == live.books.epoch:
                    self._take_refusal(live, message)
                return
            case Commit():
                verdict = live.books.commit(message)
            case Finished():
                verdict = live.books.finish(message)
        match verdict:
            case Reconciled.CONTINUE:
                live.refused_since = None
                self._read(live)
                live.changed.set()
                if isinstance(message, Commit):
                    live.watch.committed(message)
            case Reconciled.STALE:
                self.num_stale += 1
            case Reconciled.OPEN:
                log.warning("commits missing, opened anew", **live.watch.names)
                self._move(live, MoveReason.GAP)

    def _follow(self, live: LiveSession, verdict: Verdict) -> None:
        match verdict:
            case Verdict.RESUME:
                assert live.seat is not None
                live.seat.send([live.books.resume()])
            case Verdict.OPEN:
                log.warning("verifier and books differ, opened anew", **live.watch.names)
                self._move(live, MoveReason.LEDGER)

    def _close_stray(self, seat: VerifierSeat, entry: LedgerEntry) -> None:
        """What a verifier holds and should not; a session in the instant of its end is none."""
        live = self.sessions.get(entry.session_id)
        if live is None or live.seat is not None or live.away_at != seat.instance_id:
            seat.send([Close(entry.session_id, entry.epoch)])

    def _read(self, live: LiveSession) -> None:
        """Turn what was committed into text, and end the session where a stop string does."""
        text = live.text
        if text is None:
            return
        if text.feed(live.books.output_from(text.num_tokens)):
            self._leave_seat(live)
            live.books.end_output(text.num_tokens)
        if live.books.is_finished:
            text.finish()

    def _take_refusal(self, live: LiveSession, message: Refused) -> None:
        """Go on elsewhere or later where that is possible, else fail."""
        loop = asyncio.get_running_loop()
        since = loop.time() if live.refused_since is None else live.refused_since
        may_wait = loop.time() - since < self._limits.reopen_s
        reason = _REASONS.get(message.kind)
        is_new = reason is MoveReason.FULL and not live.books.output_len
        if live.move_reason is MoveReason.PREEMPTION:  # it was in, and its turn comes again
            is_new, may_wait = False, True
        if reason is None or is_new or not may_wait:
            live.fail(error_named(message.kind, message.message))
        elif reason is MoveReason.LEDGER:  # it was to be resumed and is not there any more
            live.seat = None
            live.move_reason = MoveReason.FAILOVER
            self._place(live)
        else:
            self._move_when_there_is_room(live, reason)
            live.refused_since = since

    def _move_when_there_is_room(self, live: LiveSession, reason: MoveReason) -> None:
        """At once if another verifier is there, else ask again in a moment."""
        refusing, live.seat = live.seat, None
        if live.move_reason is not MoveReason.PREEMPTION:
            live.move_reason = reason
        if any(self._is_fit(seat, live) and seat is not refusing for seat in self.seats):
            self._place(live, but=refusing)
        else:
            asyncio.get_running_loop().call_later(_FULL_RETRY_S, self._place_if_waiting, live)

    def _wait_for_return(self, live: LiveSession, instance_id: str) -> None:
        """Give a verifier whose stream was cut a moment to come back before its session moves."""
        live.changed.set()
        if self._limits.resume_s <= 0:
            self._place(live)
            return
        live.away_at, live.may_move = instance_id, False
        loop = asyncio.get_running_loop()
        loop.call_later(self._limits.resume_s, self._stop_waiting, live, live.books.epoch)

    def _stop_waiting(self, live: LiveSession, epoch: Epoch) -> None:
        if live.books.epoch == epoch and live.seat is None:
            live.may_move = True
            self._place_if_waiting(live)

    def _resume(self, live: LiveSession, seat: VerifierSeat) -> None:
        """Go on where the stream was cut, same epoch."""
        if live.books.settle_locally() is not None:
            live.changed.set()
            return
        live.seat, live.away_at = seat, None
        live.opened_at_ping = seat.num_pings
        seat.send([live.books.resume()])
        live.changed.set()

    def _place_if_waiting(self, live: LiveSession) -> None:
        session_id = live.books.admission.session_id
        is_here = self.sessions.get(session_id) is live
        if is_here and live.seat is None and live.error is None and not live.books.is_finished:
            self._place(live)

    def _move(self, live: LiveSession, reason: MoveReason) -> None:
        """Close the session where it is and open it where it is best now."""
        self._leave_seat(live)
        live.move_reason = reason
        self._place(live)

    def _place(self, live: LiveSession, *, but: VerifierSeat | None = None) -> None:
        """Open the session on the least busy verifier of its kind, or leave it waiting for one."""
        if live.books.settle_locally() is not None:
            self._read(live)
            live.changed.set()
            return
        seats = [seat for seat in self.seats if self._is_fit(seat, live) and seat is not but]
        load = {id(seat): 0 for seat in seats}
        for other in self.sessions.values():
            if other.seat is not None and id(other.seat) in load:
                load[id(other.seat)] += 1
        live.seat = min(seats, key=lambda seat: load[id(seat)], default=None)
        if live.seat is not None:
            live.away_at = None
            live.opened_at_ping = live.seat.num_pings
            self.moves[live.move_reason] += 1
            opening = live.books.open(above=self._epoch_floor)
            live.seat.send([live.watch.placed(opening, live.seat.name)])
        live.changed.set()

    def _is_fit(self, seat: VerifierSeat, live: LiveSession) -> bool:
        return seat.fingerprint == live.fingerprint

    def _leave_seat(self, live: LiveSession) -> None:
        if live.seat is not None and not live.books.is_finished:
            live.seat.send([Close(live.books.admission.session_id, live.books.epoch)])
        live.seat = None

    async def _wait_for_turn(self, live: LiveSession) -> None:
        """Until fewer than the limit run; a cancelled session leaves the queue at once."""
        if self._num_running < self._limits.max_sessions:
            self._num_running += 1
            return
        if len(self._queue) >= self._limits.max_queue:
            raise NoCapacity(
                f"{self._limits.max_sessions} sessions run and {len(self._queue)} requests wait"
            )
        bisect.insort(self._queue, live, key=_priority)
        try:
            while live in self._queue:
                await live.changed.wait()
                live.changed.clear()
                if live.error is not None:
                    raise live.error
        except BaseException:
            if live in self._queue:
                self._queue.remove(live)
            else:
                self._pass_turn()  # it came together with the end
            raise

    def _pass_turn(self) -> None:
        """A session ended: the first in the queue runs in its place."""
        if self._queue:
            self._queue.pop(0).changed.set()
        else:
            self._num_running -= 1


def _priority(live: LiveSession) -> int:
    return live.books.admission.priority


_REASONS = {
    NoCapacity.__name__: MoveReason.FULL,
    Preempted.__name__: MoveReason.PREEMPTION,
    Draining.__name__: MoveReason.DRAIN,
    UnknownSession.__name__: MoveReason.LEDGER,
}
"""What a refusal means for a session that can go on elsewhere, or there later."""
