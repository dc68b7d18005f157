"""A drafter that keeps flight records of its sessions, and decides nothing otherwise."""

from collections.abc import Sequence
from dataclasses import replace

from ssd.core.cost_model import CostModel
from ssd.core.draft_session import DraftSession, SessionKey
from ssd.core.draft_step import Candidates, Step
from ssd.core.draft_tree import DraftNode
from ssd.core.drafter import Drafter
from ssd.core.drafter_flight import DraftAt, Event, Expanded, Followed, Stepped, Told
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.drafter_outputs import Output, ToVerifier
from ssd.core.flight_recorder import FlightRecorder
from ssd.core.messages import Commit, Grow, Open

DrafterFlights = FlightRecorder[SessionKey, DraftAt, Event]


class RecordedDrafter(Drafter):
    """See `ssd.core.flight_recorder`."""

    def __init__(
        self, limits: DrafterLimits, *, life: int = 0, cost: CostModel | None = None
    ) -> None:
        super().__init__(limits, life=life, cost=cost)
        self.flights: DrafterFlights = FlightRecorder()
        self._due: set[SessionKey] = set()  # sessions whose record wants a checkpoint
        self._is_following = False
        self._found: list[DraftNode] = []

    def open(self, opening: Open, *, peer: str) -> list[Output]:
        outputs = super().open(opening, peer=peer)
        session = self.sessions.get((peer, opening.session_id))
        if session is not None and session.opening is opening:
            begun = replace(DraftAt.of(opening, session.tree), is_new=True)
            self.flights.opened(session.key, begun)
        return outputs

    def commit(self, message: Commit, *, peer: str) -> list[Output]:
        session = self.sessions.get((peer, message.session_id))
        if session is None:
            return super().commit(message, peer=peer)
        before = (session.committed_len, session.is_lost)
        self._is_following = True  # what is said of a commit is noted after it
        outputs = super().commit(message, peer=peer)
        self._is_following = False
        if (session.committed_len, session.is_lost) != before:
            self._note(session, _followed(session, message))
            self._note_told(session, outputs)
        return outputs

    def step_done(
        self, step: Step, candidates: Sequence[Candidates], *, start_s: float, end_s: float
    ) -> list[Output]:
        outputs = super().step_done(step, candidates, start_s=start_s, end_s=end_s)
        if self._due:
            self._checkpoint()
        return outputs

    def _checkpoint(self) -> None:
        """Where no step is running; what ended meanwhile needs none."""
        self._due &= self.sessions.keys()
        for session in [self.sessions[key] for key in self._due]:
            if not session.running:
                opening = replace(session.opening, token_ids=tuple(session.token_ids))
                self.flights.checkpoint(session.key, DraftAt.of(opening, session.tree))
                self._due.discard(session.key)

    def _step_of(self, working: Sequence[DraftSession]) -> Step | None:
        step = super()._step_of(working)
        for share in step.shares if step is not None else ():
            num_covered = len(share.rows.token_ids) - len(share.nodes)
            keys = tuple([node.key for node in share.nodes])
            assert step is not None
            self._note(share.session, Stepped(step.number, num_covered, keys))
        return step

    def _expand(
        self, session: DraftSession, step: int, node: DraftNode, candidates: Candidates
    ) -> None:
        super()._expand(session, step, node, candidates)
        if not node.is_dropped:
            self._found.append(node)

    def _publish(self, session: DraftSession) -> None:
        """Called between a step's expansions and what is said of them."""
        keys = tuple([node.key for node in self._found])
        listed = tuple([tuple([each[1] for each in node.candidates]) for node in self._found])
        self._found.clear()
        self._note(session, Expanded(session.last_step, keys, listed))
        super()._publish(session)

    def _flush(self, session: DraftSession) -> list[Output]:
        outputs = super()._flush(session)
        if outputs and not self._is_following:
            self._note_told(session, outputs)
        return outputs

    def _drop(self, key: SessionKey, *, may_keep: bool = True) -> list[Output]:
        self.flights.ended(key)
        return super()._drop(key, may_keep=may_keep)

    def _note_told(self, session: DraftSession, outputs: Sequence[Output]) -> None:
        """Note what the outputs say of this session."""
        for output in outputs:
            if not isinstance(output, ToVerifier) or not isinstance(output.message, Grow):
                continue
            grow = output.message
            if (output.peer, grow.session_id) == session.key:
                positions = tuple([each.position for each in grow.expansions])
                self._note(session, Told(grow.base_len, positions, grow.is_exhausted))

    def _note(self, session: DraftSession, event: Event) -> None:
        if self.flights.note(session.key, event):
            self._due.add(session.key)


def _followed(session: DraftSession, message: Commit) -> Followed:
    return Followed(
        message.base_len,
        message.base_key,
        message.token_ids,
        session.is_lost,
        session.committed_len,
        session.tree.kv_len,
        session.tree.slots.num_live,
    )
