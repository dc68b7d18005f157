"""The sessions of this coordinator: admitted, placed on a verifier, moved when it is lost.

A session is placed by one operation, `Open` with what is committed and a higher epoch, whatever the
reason: its start, a lost verifier, a gap in the commits. It only moves between verifiers of equal
fingerprint, because only those continue the same text.
"""

import asyncio
import bisect
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from coordinator.output_text import OutputText
from coordinator.request_watch import RequestWatch
from ssd.core.client_session import Admission, ClientSession, Reconciled
from ssd.core.errors import (
    Cancelled,
    NoCapacity,
    ProtocolError,
    SessionConflict,
    SsdError,
    Unavailable,
    UnknownSession,
)
from ssd.core.ids import Epoch, SessionId
from ssd.core.messages import Close, Commit, Finished, Open, Refused
from ssd.wire.status import error_named

_FULL_RETRY_S = 0.5
log = structlog.get_logger()


class VerifierSeat(Protocol):
    """A verifier that sessions can be placed on."""

    name: str
    fingerprint: str

    def send(self, orders: Iterable[Open | Close]) -> None: ...


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
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    text: OutputText | None = None  # who only counts tokens needs no text

    def fail(self, error: SsdError) -> None:
        self.error = error
        self.changed.set()


@dataclass(frozen=True, slots=True)
class TableLimits:
    """Sessions that run at once, requests that may wait for one, seconds without a verifier."""

    max_sessions: int
    max_queue: int
    reopen_s: float


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
        """A verifier can take sessions; those that wait for one of its kind get it."""
        self.seats.append(seat)
        self.seats_changed.set()
        for live in self.sessions.values():
            if live.is_running and live.seat is None and not live.books.is_finished:
                self._place(live)

    def remove_seat(self, seat: VerifierSeat) -> None:
        """A verifier is gone; its sessions move."""
        if seat not in self.seats:
            return
        self.seats.remove(seat)
        self.seats_changed.set()
        for live in self.sessions.values():
            if live.seat is seat:
                live.seat = None
                self._place(live)

    def take(self, message: Commit | Finished | Refused) -> None:
        """Book what a verifier reports."""
        live = self.sessions.get(message.session_id)
        if live is None or live.books.is_finished:
            self.num_stale += 1
            return
        try:
            self._settle(live, message)
        except ProtocolError as error:
            log.error("session failed", session_id=message.session_id, reason=str(error))
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
                log.warning("commits missing, opened anew", session_id=message.session_id)
                self._leave_seat(live)
                self._place(live)

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
        """Fail, unless it is a session in mid-text that a full verifier may take in a moment."""
        loop = asyncio.get_running_loop()
        since = loop.time() if live.refused_since is None else live.refused_since
        may_wait = loop.time() - since < self._limits.reopen_s
        if message.kind == NoCapacity.__name__ and live.books.output_len and may_wait:
            live.refused_since = since
            live.seat = None
            loop.call_later(_FULL_RETRY_S, self._place_if_waiting, live)
        else:
            live.fail(error_named(message.kind, message.message))

    def _place_if_waiting(self, live: LiveSession) -> None:
        session_id = live.books.admission.session_id
        if self.sessions.get(session_id) is live and live.seat is None and live.error is None:
            self._place(live)

    def _place(self, live: LiveSession) -> None:
        """Open the session on the least busy verifier of its kind, or leave it waiting for one."""
        if live.books.settle_locally() is not None:
            self._read(live)
            live.changed.set()
            return
        seats = [seat for seat in self.seats if seat.fingerprint == live.fingerprint]
        load = {id(seat): 0 for seat in seats}
        for other in self.sessions.values():
            if other.seat is not None and id(other.seat) in load:
                load[id(other.seat)] += 1
        opening = live.books.open()
        live.seat = min(seats, key=lambda seat: load[id(seat)], default=None)
        if live.seat is not None:
            live.seat.send([opening])
        live.changed.set()

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
