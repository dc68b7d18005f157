"""A request in progress, as the parts of the coordinator see it."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from coordinator.output_text import OutputText
from coordinator.request_watch import RequestWatch
from ssd.core.credit import Credit
from ssd.core.errors import SsdError
from ssd.core.ids import SessionId
from ssd.core.ledger import LedgerEntry
from ssd.core.messages import Close, Open, Resume
from ssd.core.recorded_books import RecordedBooks

_AHEAD = 256  # as far as a verifier holds slots for output to come
_TREE = 16


class VerifierSeat(Protocol):
    """A verifier that sessions can be placed on."""

    name: str
    fingerprint: str
    instance_id: str  # of the process: a restarted one has another
    is_draining: bool  # takes no session any more
    credit: Credit | None  # what it may be given yet, since its last heartbeat; None before that

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

    books: RecordedBooks
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

    @property
    def session_id(self) -> SessionId:
        return self.books.admission.session_id

    @property
    def num_slots(self) -> int:
        """KV slots that its opening takes, about; the verifier knows exactly."""
        ahead = self.books.committed_len + _AHEAD
        return min(self.books.admission.max_len, ahead) + _TREE

    def fail(self, error: SsdError) -> None:
        self.error = error
        self.changed.set()

    def take_seat(self, seat: VerifierSeat) -> None:
        """It is there from now on, and waits for no other verifier to return."""
        self.seat, self.away_at, self.may_move = seat, None, True
        self.opened_at_ping = seat.num_pings

    def leave_seat(self) -> None:
        """Close it where it is."""
        if self.seat is not None and not self.books.is_finished:
            self.seat.send([Close(self.session_id, self.books.epoch)])
        self.seat = None

    def read(self) -> None:
        """Turn what was committed into text, and end the session where a stop string does."""
        text = self.text
        if text is None:
            return
        if text.feed(self.books.output_from(text.num_tokens)):
            self.leave_seat()
            self.books.end_output(text.num_tokens)
        if self.books.is_finished:
            text.finish()
