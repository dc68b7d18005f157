"""A verifier that keeps flight records of its sessions, and decides nothing otherwise."""

from collections.abc import Iterable, Sequence

from ssd.core.drafter_kind import DrafterKind
from ssd.core.drafter_roster import opening_as_it_stands
from ssd.core.expansion import Expansion
from ssd.core.flight_recorder import FlightRecorder
from ssd.core.ids import SessionId
from ssd.core.messages import Grow, Open
from ssd.core.price import CostModel
from ssd.core.rounds import RoundRecord
from ssd.core.verifier import Verifier
from ssd.core.verifier_flight import (
    Checkpoint,
    Drawn,
    Event,
    Failed,
    Grown,
    Launched,
    Settled,
)
from ssd.core.verifier_limits import VerifierLimits
from ssd.core.verifier_outputs import Output
from ssd.core.verifier_round import Idle, Round
from ssd.core.verifier_session import Settled as SettledRound
from ssd.core.verifier_session import VerifierSession


class RecordedVerifier(Verifier):
    """See `ssd.core.flight_recorder`."""

    def __init__(self, limits: VerifierLimits, cost: CostModel) -> None:
        super().__init__(limits, cost)
        self.flights = FlightRecorder[SessionId, Checkpoint, Event]()
        self._due: set[SessionId] = set()  # sessions whose record wants a checkpoint

    def open(self, opening: Open, *, owner: str) -> list[Output]:
        standing = self.sessions.get(opening.session_id)
        outputs = super().open(opening, owner=owner)
        session = self.sessions.get(opening.session_id)
        if session is not None and session is not standing:
            standing_now = Checkpoint(opening, session.kv_len, _parts(session.expansions))
            self.flights.opened(opening.session_id, standing_now)
        return outputs

    def grow(
        self, message: Grow, *, now: float, kind: DrafterKind = DrafterKind.MODEL
    ) -> list[Output]:
        session = self.sessions.get(message.session_id)
        if session is not None and session.opening.epoch == message.epoch and message.expansions:
            found = tuple(each.said_by(kind) for each in message.expansions)
            self._note(message.session_id, Grown(found))
        return super().grow(message, now=now, kind=kind)

    def next_action(self, now: float) -> Round | Idle:
        action = super().next_action(now)
        if isinstance(action, Round):
            for share in action.shares:
                parents = () if share.planned is None else share.planned.tree.parents
                rows = Launched(action.round_id, share.rows.token_ids, parents)
                self._note(share.session.opening.session_id, rows)
        return action

    def round_failed(self, failed: Round) -> list[Output]:
        for share in failed.shares:
            session_id = share.session.opening.session_id
            if self.sessions.get(session_id) is share.session:
                self._note(session_id, Failed(failed.round_id))
        return super().round_failed(failed)

    def round_done(
        self,
        done: Round,
        target_token_ids: Sequence[Sequence[int]],
        *,
        launch_s: float,
        end_s: float,
    ) -> list[Output]:
        for share, target in zip(done.shares, target_token_ids, strict=True):
            session_id = share.session.opening.session_id
            if self.sessions.get(session_id) is share.session:
                self._note(session_id, Drawn(done.round_id, tuple(target)))
        outputs = super().round_done(done, target_token_ids, launch_s=launch_s, end_s=end_s)
        for share in done.shares:  # what sessions found themselves is said as if it had come
            session = share.session
            if session.own_drafts and self.sessions.get(session.opening.session_id) is session:
                self._note(session.opening.session_id, Grown(session.own_drafts))
        for session_id in self._due & self.sessions.keys():
            self.flights.checkpoint(session_id, self._as_it_stands(self.sessions[session_id]))
        self._due.clear()
        return outputs

    def _announce(
        self, session: VerifierSession, settled: SettledRound, record: RoundRecord
    ) -> list[Output]:
        stands = (session.committed_len, session.kv_len)
        event = Settled(settled.token_ids, settled.finish_reason, *stands)
        self._note(session.opening.session_id, event)
        return super()._announce(session, settled, record)

    def _drop(self, session_id: SessionId) -> list[Output]:
        self.flights.ended(session_id)
        return super()._drop(session_id)

    def _note(self, session_id: SessionId, event: Event) -> None:
        if self.flights.note(session_id, event):
            self._due.add(session_id)

    def _as_it_stands(self, session: VerifierSession) -> Checkpoint:
        return Checkpoint(
            opening_as_it_stands(session),
            session.kv_len,
            _parts(session.expansions),
        )


def _parts(expansions: Iterable[Expansion]) -> tuple[Expansion, ...]:
    """What each drafter said, as it came."""
    return tuple(part for each in expansions for part in each.parts or (each,))
