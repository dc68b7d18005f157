"""What verifiers report about sessions, booked, and what follows from it.

With every heartbeat a verifier says what it holds, and where that differs from the books
(`ssd.core.ledger`) the books win.
"""

from collections.abc import Callable, Mapping

import structlog

from coordinator.clock import Clock
from coordinator.journal_records import Committed
from coordinator.live_session import LiveSession, MoveReason, VerifierSeat
from coordinator.seating import Seating
from coordinator.session_notes import SessionNotes
from ssd.core.client_session import Reconciled
from ssd.core.errors import (
    Draining,
    NoCapacity,
    Preempted,
    ProtocolError,
    SessionConflict,
    UnknownSession,
)
from ssd.core.ids import SessionId
from ssd.core.ledger import Ledger, LedgerEntry, Verdict, reconcile
from ssd.core.messages import Close, Commit, Finished, Refused
from ssd.wire.status import error_named

log = structlog.get_logger()


class Reports:
    """Takes what verifiers say about the sessions of a table, which owns `sessions`."""

    def __init__(
        self,
        sessions: Mapping[SessionId, LiveSession],
        seating: Seating,
        notes: SessionNotes,
        clock: Clock,
        *,
        reopen_s: float,
        broken: Callable[[SessionId, str], None],
    ) -> None:
        self.num_stale = 0
        self._sessions = sessions
        self._seating = seating
        self._notes = notes
        self._clock = clock
        self._broken = broken  # called with a session that contradicts itself, and how
        self._reopen_s = reopen_s  # seconds that full verifiers may refuse a session

    def take(self, message: Commit | Finished | Refused) -> None:
        """Book what a verifier reports."""
        live = self._sessions.get(message.session_id)
        if live is None or live.books.is_finished:
            self.num_stale += 1
            return
        try:
            self._settle(live, message)
        except ProtocolError as error:
            log.error("session failed", reason=str(error), **live.watch.names)
            self._broken(message.session_id, str(error))
            live.fail(error)

    def compare(self, seat: VerifierSeat, ledger: Ledger) -> None:
        """Hold what a verifier says it has against the books."""
        held = {each.session_id: each for each in ledger.entries}
        here = [live for live in self._sessions.values() if live.seat is seat]
        seat.credit = ledger.credit
        for live in here:
            if seat.credit is not None and live.opened_at_ping >= ledger.number:
                seat.credit = seat.credit.less(live.num_slots)  # on its way when that was said
            entry = held.pop(live.session_id, None)
            live.held = entry
            if live.opened_at_ping < ledger.number and not live.books.is_finished:
                self._follow(live, reconcile(live.books.standing, entry))
        for entry in held.values():
            self._close_stray(seat, entry)

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
                self._seating.clear(live)
                live.read()
                self._notes.end(live)
                live.changed.set()
                if isinstance(message, Commit):
                    live.watch.committed(message)
            case Reconciled.STALE:
                self.num_stale += 1
            case Reconciled.OPEN:
                log.warning("commits missing, opened anew", **live.watch.names)
                self._seating.move(live, MoveReason.GAP)

    def _book(self, live: LiveSession, message: Commit) -> Reconciled:
        """Into the books, and written down before anybody sees it."""
        had = live.books.output_len
        verdict = live.books.commit(message)
        fresh = live.books.output_from(had)
        if fresh:
            self._notes.write(live, Committed(message.session_id, had, fresh))
        return verdict

    def _follow(self, live: LiveSession, verdict: Verdict) -> None:
        match verdict:
            case Verdict.RESUME:
                assert live.seat is not None
                live.seat.send([live.books.resume()])
            case Verdict.OPEN:
                log.warning("verifier and books differ, opened anew", **live.watch.names)
                self._seating.move(live, MoveReason.LEDGER)

    def _close_stray(self, seat: VerifierSeat, entry: LedgerEntry) -> None:
        """What a verifier holds and should not; a session in the instant of its end is none."""
        live = self._sessions.get(entry.session_id)
        if live is None or live.seat is not None or live.away_at != seat.instance_id:
            seat.send([Close(entry.session_id, entry.epoch)])

    def _take_refusal(self, live: LiveSession, message: Refused) -> None:
        """Go on elsewhere or later where that is possible, else fail."""
        now = self._clock.time()
        since = now if live.refused_since is None else live.refused_since
        may_wait = now - since < self._reopen_s
        reason = _REASONS.get(message.kind)
        is_new = reason is MoveReason.FULL and not live.books.output_len
        if MoveReason.PREEMPTION in (reason, live.move_reason):  # it was in: its turn comes again
            is_new, may_wait = False, True
        if reason is None or is_new or not may_wait:
            live.fail(error_named(message.kind, message.message))
        elif reason is MoveReason.LEDGER:  # it is not there any more
            live.seat = None
            live.move_reason = MoveReason.FAILOVER
            self._seating.place(live)
        else:
            self._seating.move_when_there_is_room(live, reason)
            live.refused_since = since


_REASONS = {
    NoCapacity.__name__: MoveReason.FULL,
    Preempted.__name__: MoveReason.PREEMPTION,
    Draining.__name__: MoveReason.DRAIN,
    UnknownSession.__name__: MoveReason.LEDGER,
    SessionConflict.__name__: MoveReason.LEDGER,  # one came twice; what was said was lost
}
"""What a refusal means for a session that can go on elsewhere, or there later."""
