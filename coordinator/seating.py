"""Which verifier each session is on.

A session is placed by one operation, `Open` with what is committed and a higher epoch, whatever the
reason: its start, a lost verifier, a gap in the commits, a verifier without room. It only moves
between verifiers of equal fingerprint, because only those continue the same text.

When a stream is cut the verifier may live on with the sessions' KV, so each waits a moment for it:
if it comes back they are resumed, same epoch; if not, they move. Of sessions with which verifier
after verifier was lost one runs at a time, and one that goes on like that is refused.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping

from coordinator.clock import Clock
from coordinator.journal_records import Opened
from coordinator.live_session import LiveSession, MoveReason, VerifierSeat
from coordinator.session_notes import SessionNotes
from ssd.core.errors import Poisoned
from ssd.core.ids import Epoch, SessionId

_FULL_RETRY_S = 0.5
_LOSSES_OF_A_SUSPECT = 2
_LOSSES_OF_A_POISONED = 3


class Seating:
    """Places and moves the sessions of a table, which owns `sessions`; on its event loop.

    Verifiers remember the epochs of sessions that ended, and a client may use its request id again,
    also after a restart of the coordinator. So a session starts above `epoch_floor`, which is above
    all epochs that were used before.
    """

    def __init__(
        self,
        sessions: Mapping[SessionId, LiveSession],
        notes: SessionNotes,
        clock: Clock,
        *,
        resume_s: float,
        epoch_floor: int,
    ) -> None:
        self.seats: list[VerifierSeat] = []
        self.seats_changed = asyncio.Event()
        self.moves: Counter[MoveReason] = Counter()
        self.epoch_floor = Epoch(epoch_floor)
        self._sessions = sessions
        self._notes = notes
        self._clock = clock
        self._resume_s = resume_s  # seconds that a session waits for the verifier it lost

    def add(self, seat: VerifierSeat) -> None:
        """A verifier can take sessions: its own are resumed, others that wait are opened."""
        self.seats.append(seat)
        self.seats_changed.set()
        self._fill(seat)

    def remove(self, seat: VerifierSeat) -> None:
        """The stream to a verifier is gone, and perhaps the verifier with it."""
        if seat not in self.seats:
            return
        self.seats.remove(seat)
        self.seats_changed.set()
        for live in self._sessions.values():
            if live.seat is seat:
                live.seat = None
                live.move_reason = MoveReason.FAILOVER
                live.num_lost += not seat.is_draining  # one that takes leave is no loss
                self.wait_for_return(live, seat.instance_id)

    def drain(self, seat: VerifierSeat, *, is_draining: bool) -> int:
        """Place nothing there any more, and move what another verifier can take; what stays."""
        seat.is_draining = is_draining
        here = [live for live in self._sessions.values() if live.seat is seat]
        if not is_draining:
            if seat in self.seats:  # its stream may be cut
                self._fill(seat)  # with those who came meanwhile
            return len(here)
        num_staying = 0
        for live in here:
            if any(_is_fit(each, live) for each in self.seats):
                self.move(live, MoveReason.DRAIN)
            else:
                num_staying += 1
        return num_staying

    def process_lost(self, instance_id: str) -> None:
        """A verifier's process is gone for certain: its sessions need not wait for it."""
        for live in self._sessions.values():
            if live.away_at == instance_id:
                live.away_at, live.may_move = None, True
                self._place_if_waiting(live)

    def move(self, live: LiveSession, reason: MoveReason) -> None:
        """Close the session where it is and open it where it is best now."""
        live.leave_seat()
        live.move_reason = reason
        self.place(live)

    def move_when_there_is_room(self, live: LiveSession, reason: MoveReason) -> None:
        """At once if another verifier is there, else ask again in a moment."""
        refusing, live.seat = live.seat, None
        if live.move_reason is not MoveReason.PREEMPTION:
            live.move_reason = reason
        if any(_is_fit(seat, live) and seat is not refusing for seat in self.seats):
            self.place(live, but=refusing)
        else:
            self._clock.call_later(_FULL_RETRY_S, self._place_if_waiting, live)

    def place(self, live: LiveSession, *, but: VerifierSeat | None = None) -> None:
        """Open the session on the least busy verifier of its kind, or leave it waiting for one."""
        if live.books.settle_locally() is not None:
            live.read()
            self._notes.end(live)
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
        live.seat = None
        if (seat := self._least_busy(live, but)) is not None:
            self._open(live, seat)
        live.changed.set()

    def wait_for_return(self, live: LiveSession, instance_id: str) -> None:
        """Give a verifier whose stream was cut a moment to come back before its session moves."""
        live.changed.set()
        if self._resume_s <= 0:
            self.place(live)
            return
        live.away_at, live.may_move = instance_id, False
        self._clock.call_later(self._resume_s, self._stop_waiting, live, live.books.epoch)

    def clear(self, live: LiveSession) -> None:
        """It brought a token, so it is none that ends verifiers; the next suspect may be tried."""
        was_suspect = _is_suspect(live)
        live.num_lost = 0
        if was_suspect:
            self.try_suspects()

    def try_suspects(self) -> None:
        """One of them may have its turn now."""
        for live in self._sessions.values():
            if _is_suspect(live):
                self._place_if_waiting(live)

    def _fill(self, seat: VerifierSeat) -> None:
        for live in self._sessions.values():
            if not live.is_running or live.seat is not None or live.books.is_finished:
                continue
            if live.away_at == seat.instance_id:
                self._resume(live, seat)
            elif live.may_move:
                self.place(live)

    def _least_busy(self, live: LiveSession, but: VerifierSeat | None) -> VerifierSeat | None:
        """Of those whose credit covers the session the one with the fewest, of any coordinator."""
        seats = [seat for seat in self.seats if _is_fit(seat, live) and seat is not but]
        load = {id(seat): seat.credit.num_others if seat.credit else 0 for seat in seats}
        for other in self._sessions.values():
            if other.seat is not None and id(other.seat) in load:
                load[id(other.seat)] += 1
        rank = {
            id(seat): (bool(seat.credit and not seat.credit.covers(live.num_slots)), load[id(seat)])
            for seat in seats
        }
        return min(seats, key=lambda seat: rank[id(seat)], default=None)

    def _open(self, live: LiveSession, seat: VerifierSeat) -> None:
        live.take_seat(seat)
        if seat.credit is not None:
            seat.credit = seat.credit.less(live.num_slots)
        self.moves[live.move_reason] += 1
        opening = live.books.open(above=self.epoch_floor)
        opened = Opened(opening.session_id, opening.epoch, seat.instance_id)
        if self._notes.write(live, opened):
            seat.send([live.watch.placed(opening, seat.name)])

    def _resume(self, live: LiveSession, seat: VerifierSeat) -> None:
        """Go on where the stream was cut, same epoch."""
        if live.books.settle_locally() is not None:
            self.place(live)
            return
        live.take_seat(seat)
        live.num_lost = max(live.num_lost - 1, 0)
        seat.send([live.books.resume()])
        live.changed.set()

    def _stop_waiting(self, live: LiveSession, epoch: Epoch) -> None:
        if live.books.epoch == epoch and live.seat is None:
            live.may_move = True
            self._place_if_waiting(live)

    def _place_if_waiting(self, live: LiveSession) -> None:
        is_here = self._sessions.get(live.session_id) is live and live.is_running
        if is_here and live.seat is None and live.error is None and not live.books.is_finished:
            self.place(live)

    def _must_wait_its_turn(self, live: LiveSession) -> bool:
        """Of sessions with which verifier after verifier was lost one runs at a time: the next loss
        has one culprit, and the others their tokens."""
        return _is_suspect(live) and any(
            _is_suspect(other) and other.seat is not None
            for other in self._sessions.values()
            if other is not live
        )


def _is_fit(seat: VerifierSeat, live: LiveSession) -> bool:
    return seat.fingerprint == live.fingerprint and not seat.is_draining


def _is_suspect(live: LiveSession) -> bool:
    return live.num_lost >= _LOSSES_OF_A_SUSPECT
