"""One forward of the verifier: whose rows it has, and the record each session keeps of it."""

from dataclasses import dataclass
from functools import cached_property

from ssd.core.drafter_kind import DrafterState
from ssd.core.read_off import PlannedTree
from ssd.core.rounds import DrafterPart, RoundRecord, WhyPlain
from ssd.core.rows import RowGroup
from ssd.core.verifier_session import Settled, VerifierSession


@dataclass(frozen=True, slots=True)
class Share:
    """One session's rows in a round: a prefill chunk (`planned` None), or a tree to verify after
    what was left of the text. Of a tree all rows are wanted."""

    session: VerifierSession
    rows: RowGroup
    planned: PlannedTree | None

    @property
    def root_position(self) -> int:
        """Of a tree's root."""
        return self.rows.positions[self.rows.wanted[0]]

    @property
    def ends_prefill(self) -> bool:
        """Whether text stands before the tree."""
        return self.planned is not None and self.rows.wanted[0] > 0


@dataclass(frozen=True)  # without slots, so that every session's record can ask for `num_rows`
class Round:
    """One forward. The shell runs `groups` and answers with the target's token per wanted row."""

    round_id: int
    shares: tuple[Share, ...]
    ready_s: float
    waited_s: float = 0.0  # for drafts
    is_probe: bool = False  # drafts were left out to measure plain decoding

    @property
    def groups(self) -> tuple[RowGroup, ...]:
        return tuple(share.rows for share in self.shares)

    @cached_property
    def num_rows(self) -> int:
        return sum(len(share.rows.token_ids) for share in self.shares)


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to run before `until` (None: before the next event)."""

    until: float | None


def record_of(
    done: Round, share: Share, settled: Settled, launch_s: float, end_s: float
) -> RoundRecord:
    assert share.planned is not None
    return RoundRecord(
        round_id=done.round_id,
        base_len=share.root_position + 1,
        launch_ns=round(launch_s * 1e9),
        end_ns=round(end_s * 1e9),
        wait_ns=round((launch_s - done.ready_s) * 1e9),
        num_proposed=share.planned.tree.num_nodes - 1,
        num_accepted=settled.num_accepted,
        num_tested=settled.num_tested,
        num_batch_rows=done.num_rows,
        lookup=settled.lookup,
        verified_steps=share.planned.steps,
        tree_depth=share.planned.depth,
        why_plain=_why_plain(share, is_probe=done.is_probe),
        num_cached=share.session.num_cached,
        drafters=tuple(
            DrafterPart(kind, *settled.nodes_of.get(kind, (0, 0)), state)
            for kind, state in share.session.control.states.items()
        ),
        shadow=settled.shadow,
    )


def _why_plain(share: Share, *, is_probe: bool) -> WhyPlain | None:
    """Why nothing was proposed, if nothing was."""
    assert share.planned is not None
    session = share.session
    if share.planned.tree.num_nodes > 1:
        return None
    if not session.opening.mode.verifies_drafts:
        return WhyPlain.MODE
    states = session.control.states.values()
    if states and all(state is DrafterState.PAUSED for state in states):
        return WhyPlain.PAUSED
    if not session.has_drafts:
        return WhyPlain.NO_DRAFTER
    if share.root_position + 2 >= session.opening.max_len:
        return WhyPlain.LAST_TOKEN
    if share.planned.expansions[0] is None:
        return WhyPlain.NOT_READY
    if is_probe:
        return WhyPlain.PROBE
    return WhyPlain.TOO_DEAR
