"""The sessions of this coordinator, from admission to the last word of their clients.

A session belongs to a request, not to a call: a client whose call broke may come back for the rest
of its text, also after a restart of this process if there is a journal. What nobody attends is kept
for a while (`coordinator.kept`), without KV once its client has left. Where it runs is decided in
`coordinator.seating`, what verifiers say of it is booked in `coordinator.reports`.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from coordinator.flight_records import BooksRecords
from coordinator.journal import Journal, NoJournal
from coordinator.journal_records import Admitted, Forgotten
from coordinator.journal_state import JournalledSession
from coordinator.kept import KeptSessions, is_same_request
from coordinator.live_session import LiveSession, MoveReason
from coordinator.output_text import OutputText
from coordinator.reports import Reports
from coordinator.request_watch import RequestWatch
from coordinator.seating import Seating
from coordinator.session_notes import SessionNotes
from coordinator.turns import Turns
from ssd.core.client_session import Admission
from ssd.core.errors import Cancelled, SessionConflict, SsdError, Unavailable, UnknownSession
from ssd.core.ids import SessionId
from ssd.core.logprobs import LogprobsWanted
from ssd.core.recorded_books import RecordedBooks


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
    """Owns the live sessions; lives on one event loop."""

    def __init__(
        self,
        limits: TableLimits,
        *,
        epoch_floor: int = 0,
        journal: Journal | None = None,
        flights: BooksRecords | None = None,
    ) -> None:
        self.sessions: dict[SessionId, LiveSession] = {}
        self.turns = Turns(limits.max_sessions, limits.max_queue)
        self.flights = flights or BooksRecords()
        self._limits = limits
        self._journal = journal or NoJournal()
        self._notes = SessionNotes(self._journal)
        self._kept: KeptSessions[LiveSession] = KeptSessions(limits.keep_s)
        loop = asyncio.get_running_loop()
        self.seating = Seating(
            self.sessions, self._notes, loop, resume_s=limits.resume_s, epoch_floor=epoch_floor
        )
        self.reports = Reports(
            self.sessions,
            self.seating,
            self._notes,
            loop,
            reopen_s=limits.reopen_s,
            broken=self.flights.leave,
        )

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
        books = RecordedBooks(admission)
        books.epoch = self.seating.epoch_floor
        live = LiveSession(books, fingerprint, watch or RequestWatch(), text=text)
        live.watch.admitted(live.books)
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
        live.read()
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
            self._notes.forget(admission.session_id)
            return
        books = session.books()
        self.flights.begin(books)
        live = LiveSession(books, session.admitted.fingerprint, RequestWatch())
        session_id = live.session_id
        live.move_reason = MoveReason.RESTART
        if live.books.settle_locally() is not None or live.books.is_finished:
            self.flights.ended(session_id)
            self._kept.put(session_id, live, now=asyncio.get_running_loop().time())
            return
        self.sessions[session_id] = live
        self.turns.take()
        live.is_running = True
        live.unattended_since = asyncio.get_running_loop().time()
        if session.instance_id:
            self.seating.wait_for_return(live, session.instance_id)

    def expire(self) -> None:
        """Let go of what nobody came for; called about once a second."""
        now = asyncio.get_running_loop().time()
        for session_id in self._kept.expire(now):
            self._notes.forget(session_id)
        for live in list(self.sessions.values()):
            since = live.unattended_since
            if since is None:
                continue
            is_over = live.books.is_finished or live.error is not None
            if is_over or now - since > self._limits.keep_s:
                self._end(live)

    def cancel(self, session_id: SessionId) -> None:
        """End a session with CANCELLED.

        Raises:
            UnknownSession: there is none of that id.
        """
        live = self.sessions.get(session_id)
        if live is None:
            raise UnknownSession(f"no request {session_id} is running here")
        live.fail(Cancelled("cancelled by request"))

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

    @asynccontextmanager
    async def _running(self, live: LiveSession) -> AsyncIterator[None]:
        """Give the session its turn and a place."""
        session_id = live.session_id
        self.sessions[session_id] = live
        self.flights.begin(live.books)
        live.error, live.is_running = None, False
        async with self._attended(live):
            if not live.books.is_finished:
                await self.turns.wait(live)
                live.is_running = True
                live.watch.turn_came()
                self.seating.place(live)
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
        session_id = live.session_id
        if live.is_running:
            live.leave_seat()
            self.turns.pass_on()
        live.is_running, live.away_at, live.may_move = False, None, True
        del self.sessions[session_id]
        self.flights.ended(session_id)
        self.seating.epoch_floor = max(self.seating.epoch_floor, live.books.epoch)
        self.seating.try_suspects()
        if live.error is None:
            now = asyncio.get_running_loop().time()
            for dropped in self._kept.put(session_id, live, now=now):
                self._notes.forget(dropped)
        else:
            self._notes.forget(session_id)
