"""The sessions of this coordinator: admitted, placed on a verifier, moved when it is lost.

A session is placed by one operation, `Open` with what is committed and a higher epoch, whatever the
reason: its start, a lost verifier, a gap in the commits, a verifier without room. It only moves
between verifiers of equal fingerprint, because only those continue the same text.

When a stream is cut the verifier may live on with the sessions' KV, so each waits a moment for it:
if it comes back they are resumed, same epoch; if not, they move. With every heartbeat a verifier
says what it holds, and where that differs from the books (`ssd.core.ledger`) the books win.

A session belongs to a request, not to a call: a client whose call broke may come back for the rest
of its text, also after a restart of this process if there is a journal. What nobody attends is kept
for a while (`coordinator.kept`), without KV once its client has left.
"""

import asyncio
import bisect
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import structlog

from coordinator.journal import Journal, NoJournal
from coordinator.journal_records import Admitted, Committed, Ended, Forgotten, Opened, Record
from coordinator.journal_state import JournalledSession
from coordinator.kept import KeptSessions, is_same_request
from coordinator.output_text import OutputText
from coordinator.request_watch import RequestWatch
from ssd.core.client_session import Admission, ClientSession, Reconciled
from ssd.core.errors import (
    Cancelled,
    Draining,
    NoCapacity,
    Poisoned,
    Preempted,
    ProtocolError,
    SessionConflict,
    SsdError,
    Unavailable,
    UnknownSession,
)
from ssd.core.ids import Epoch, SessionId
from ssd.core.ledger import Ledger, LedgerEntry, Verdict, reconcile
from ssd.core.logprobs import LogprobsWanted
from ssd.core.messages import Close, Commit, Finished, Open, Refused, Resume
from ssd.wire.status import error_named

_FULL_RETRY_S = 0.5
_LOSSES_OF_A_SUSPECT = 2
_LOSSES_OF_A_POISONED = 3
log = structlog.get_logger()


class VerifierSeat(Protocol):
    """A verifier that sessions can be placed on."""

    name: str
    fingerprint: str
    instance_id: str  # of the process: a restarted one has another
    is_draining: bool  # takes no session any more

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
    RESTART = "restart"  # this coordinator's, and the verifier had lost it meanwhile


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
    attendance: int = 0  # calls that have streamed it; the last one has it
    unattended_since: float | None = None  # on the event loop's clock, after a restart
    is_end_noted: bool = False  # in the journal
    held: LedgerEntry | None = None  # what its verifier said last
    num_lost: int = 0  # verifiers that were lost with it since its last token
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    text: OutputText | None = None  # who only counts tokens needs no text

    def fail(self, error: SsdError) -> None:
        self.error = error
        self.changed.set()


@dataclass(frozen=True, slots=True)
class TableLimits:
    """Sessions that run at once, requests that may wait for one, seconds without a verifier, and
    of those the seconds that are spent on waiting for the one that was lost; seconds that a session
    is kept for a client that left."""

    max_sessions: int
    max_queue: int
    reopen_s: float
    resume_s: float
    keep_s: float


class SessionTable:
    """Owns the live sessions; lives on one event loop.

    Verifiers remember the epochs of sessions that ended, and a client may use its request id again,
    also after a restart of the coordinator. So a session starts above all epochs that were used
    before; `epoch_floor` is above those of earlier lives.
    """

    def __init__(
        self, limits: TableLimits, *, epoch_floor: int = 0, journal: Journal | None = None
    ) -> None:
        self.sessions: dict[SessionId, LiveSession] = {}
        self.seats: list[VerifierSeat] = []
        self.seats_changed = asyncio.Event()
        self.num_stale = 0
        self.moves: Counter[MoveReason] = Counter()
        self._limits = limits
        self._journal = journal or NoJournal()
        self._kept: KeptSessions[LiveSession] = KeptSessions(limits.keep_s)
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
        self._journal.check_room()
        if self._kept.take(session_id) is not None:  # its client starts anew under the same id
            self._journal.write(Forgotten(session_id))
        live = LiveSession(
            ClientSession(admission), fingerprint, watch or RequestWatch(), text=text
        )
        live.watch.admitted(live.books)
        live.books.epoch = self._epoch_floor
        self._journal.write(Admitted(admission, fingerprint, time.time()))
        async with self._running(live):
            yield live

    @asynccontextmanager
    async def resumed(
        self, admission: Admission, watch: RequestWatch, text: OutputText, *, has_seed: bool
    ) -> AsyncIterator[LiveSession]:
        """The session of a request that was admitted before, as `admission` or like it.

        A call that still streams it ends: the newest call has the session.

        Raises:
            UnknownSession: there is none, or it was kept for long enough.
            SessionConflict: the id belongs to another request.
        """
        session_id = admission.session_id
        live = self.sessions.get(session_id) or self._kept.get(session_id)
        if live is None:
            raise UnknownSession(f"no request {session_id} is known here")
        if not is_same_request(live.books.admission, admission, has_seed=has_seed):
            raise SessionConflict(f"request id {session_id} belongs to another request")
        is_kept = self._kept.take(session_id) is not None
        if not (is_kept or live.is_running):
            raise SessionConflict(f"request id {session_id} waits for its turn already")
        live.watch, live.text = watch, text
        watch.admitted(live.books)
        self._read(live)
        running = self._attended(live) if not is_kept else self._running(live)
        async with running:
            yield live

    def is_known(self, session_id: SessionId) -> bool:
        """Whether a request may be gone on with."""
        return session_id in self.sessions or self._kept.get(session_id) is not None

    def restore(self, session: JournalledSession) -> None:
        """Go on with a session that an earlier life of this process wrote down."""
        admission = session.admitted.admission
        if admission.logprobs != LogprobsWanted() and not admission.params.is_coupled:
            # Log-probabilities are not written down, and this text cannot be made again.
            self._forget(admission.session_id)
            return
        live = LiveSession(session.books(), session.admitted.fingerprint, RequestWatch())
        session_id = live.books.admission.session_id
        live.move_reason = MoveReason.RESTART
        if live.books.settle_locally() is not None or live.books.is_finished:
            self._kept.put(session_id, live, now=asyncio.get_running_loop().time())
            return
        self.sessions[session_id] = live
        self._num_running += 1
        live.is_running = True
        live.unattended_since = asyncio.get_running_loop().time()
        if session.instance_id:
            self._wait_for_return(live, session.instance_id)

    def expire(self) -> None:
        """Let go of what nobody came for; called about once a second."""
        now = asyncio.get_running_loop().time()
        for session_id in self._kept.expire(now):
            self._forget(session_id)
        for live in list(self.sessions.values()):
            since = live.unattended_since
            if since is None:
                continue
            is_over = live.books.is_finished or live.error is not None
            if is_over or now - since > self._limits.keep_s:
                self._end(live)

    def _forget(self, session_id: SessionId) -> None:
        try:
            self._journal.write(Forgotten(session_id))
        except Unavailable as error:  # it goes with its age
            log.error("session not forgotten", session_id=session_id, reason=str(error))

    @asynccontextmanager
    async def _running(self, live: LiveSession) -> AsyncIterator[None]:
        """Give the session its turn and a place."""
        session_id = live.books.admission.session_id
        self.sessions[session_id] = live
        live.error, live.is_running = None, False
        async with self._attended(live):
            if not live.books.is_finished:
                await self._wait_for_turn(live)
                live.is_running = True
                live.watch.turn_came()
                self._place(live)
            live.changed.set()
            yield

    @asynccontextmanager
    async def _attended(self, live: LiveSession) -> AsyncIterator[None]:
        """Have the session until the block ends, or until another call takes it."""
        live.attendance += 1
        live.unattended_since = None
        mine = live.attendance
        live.changed.set()
        try:
            yield
        except SsdError as error:
            if live.attendance == mine and not isinstance(error, Unavailable):
                live.error = error  # a client need not come back for it
            raise
        finally:
            if live.attendance == mine:
                self._end(live)

    def _end(self, live: LiveSession) -> None:
        """Free what the session holds; keep its text for a client that may come back."""
        session_id = live.books.admission.session_id
        if live.is_running:
            self._leave_seat(live)
            self._pass_turn()
        live.is_running, live.away_at, live.may_move = False, None, True
        del self.sessions[session_id]
        self._epoch_floor = max(self._epoch_floor, live.books.epoch)
        self._try_suspects()
        if live.error is None:
            now = asyncio.get_running_loop().time()
            for dropped in self._kept.put(session_id, live, now=now):
                self._forget(dropped)
        else:
            self._forget(session_id)

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
                live.num_lost += not seat.is_draining  # one that takes leave is no loss
                self._wait_for_return(live, seat.instance_id)

    def drain_seat(self, seat: VerifierSeat, *, is_draining: bool) -> int:
        """Place nothing there any more, and move what another verifier can take; what stays."""
        seat.is_draining = is_draining
        here = [live for live in self.sessions.values() if live.seat is seat]
        if not is_draining:
            return len(here)
        num_staying = 0
        for live in here:
            if any(self._is_fit(each, live) for each in self.seats):
                self._move(live, MoveReason.DRAIN)
            else:
                num_staying += 1
        return num_staying

    def process_lost(self, instance_id: str) -> None:
        """A verifier's process is gone for certain: its sessions need not wait for it."""
        for live in self.sessions.values():
            if live.away_at == instance_id:
                live.away_at, live.may_move = None, True
                self._place_if_waiting(live)

    def compare(self, seat: VerifierSeat, ledger: Ledger) -> None:
        """Hold what a verifier says it has against the books."""
        held = {each.session_id: each for each in ledger.entries}
        here = [live for live in self.sessions.values() if live.seat is seat]
        for live in here:
            entry = held.pop(live.books.admission.session_id, None)
            live.held = entry
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

    async def wait_for_change(self, live: LiveSession, attendance: int | None = None) -> None:
        """Until the session has news, written down as safely as the journal promises.

        `attendance` is the session's when the call began that asks.

        Raises:
            Unavailable: no verifier of its fingerprint came back in time.
            Cancelled: another call goes on with the session.
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
        if attendance is not None and live.attendance != attendance:
            raise Cancelled("another call goes on with this request")
        live.changed.clear()
        await self._journal.settled()

    def _settle(self, live: LiveSession, message: Commit | Finished | Refused) -> None:
        match message:
            case Refused():
                if message.epoch == live.books.epoch:
                    self._take_refusal(live, message)
                return
            case Commit():
                verdict = self._book(live, message)
            case Finished():
                verdict = live.books.finish(message)
        match verdict:
            case Reconciled.CONTINUE:
                live.refused_since = None
                self._clear(live)
                self._read(live)
                self._note_end(live)
                live.changed.set()
                if isinstance(message, Commit):
                    live.watch.committed(message)
            case Reconciled.STALE:
                self.num_stale += 1
            case Reconciled.OPEN:
                log.warning("commits missing, opened anew", **live.watch.names)
                self._move(live, MoveReason.GAP)

    def _book(self, live: LiveSession, message: Commit) -> Reconciled:
        """Into the books, and written down before anybody sees it."""
        had = live.books.output_len
        verdict = live.books.commit(message)
        fresh = live.books.output_from(had)
        if fresh:
            self._note(live, Committed(message.session_id, had, fresh))
        return verdict

    def _clear(self, live: LiveSession) -> None:
        """It brought a token, so it is none that ends verifiers; the next suspect may be tried."""
        was_suspect = live.num_lost >= _LOSSES_OF_A_SUSPECT
        live.num_lost = 0
        if was_suspect:
            self._try_suspects()

    def _try_suspects(self) -> None:
        for live in self.sessions.values():
            if live.num_lost >= _LOSSES_OF_A_SUSPECT:
                self._place_if_waiting(live)

    def _note_end(self, live: LiveSession) -> None:
        reason = live.books.finish_reason
        if reason is not None and not live.is_end_noted:
            live.is_end_noted = True
            self._note(live, Ended(live.books.admission.session_id, reason, time.time()))

    def _note(self, live: LiveSession, record: Record) -> bool:
        """Write down what is about to happen; a session for which that fails goes no further."""
        try:
            self._journal.write(record)
        except Unavailable as error:
            log.error("session failed", session_id=record.session_id, reason=str(error))
            live.fail(error)
            return False
        return True

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
        if MoveReason.PREEMPTION in (reason, live.move_reason):  # it was in: its turn comes again
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
            self._place(live)
            return
        live.seat, live.away_at = seat, None
        live.num_lost = max(live.num_lost - 1, 0)
        live.opened_at_ping = seat.num_pings
        seat.send([live.books.resume()])
        live.changed.set()

    def _place_if_waiting(self, live: LiveSession) -> None:
        session_id = live.books.admission.session_id
        is_here = self.sessions.get(session_id) is live and live.is_running
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
            self._note_end(live)
            live.changed.set()
            return
        if live.num_lost >= _LOSSES_OF_A_POISONED:
            words = (
                f"{live.num_lost} verifiers were lost with this request and without a token of it"
            )
            live.fail(Poisoned(words))
            return
        if self._must_wait_its_turn(live):
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
            opened = Opened(opening.session_id, opening.epoch, live.seat.instance_id)
            if self._note(live, opened):
                live.seat.send([live.watch.placed(opening, live.seat.name)])
        live.changed.set()

    def _must_wait_its_turn(self, live: LiveSession) -> bool:
        """Of sessions with which verifier after verifier was lost one runs at a time: the next loss
        has one culprit, and the others their tokens."""
        return live.num_lost >= _LOSSES_OF_A_SUSPECT and any(
            other.num_lost >= _LOSSES_OF_A_SUSPECT and other.seat is not None
            for other in self.sessions.values()
            if other is not live
        )

    def _is_fit(self, seat: VerifierSeat, live: LiveSession) -> bool:
        return seat.fingerprint == live.fingerprint and not seat.is_draining

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
