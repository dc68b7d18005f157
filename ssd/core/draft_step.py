"""One forward of the drafter: whose rows it has, and what comes of it for each session."""

from collections.abc import Sequence
from dataclasses import dataclass

from ssd.core.draft_session import DraftSession
from ssd.core.draft_tree import DraftNode
from ssd.core.expansion import Expansion, SampledCandidates
from ssd.core.fan_out import structural_estimates
from ssd.core.rounds import GrowthSpan
from ssd.core.rows import RowGroup


@dataclass(frozen=True, slots=True)
class StepShare:
    """One session's rows in a step; the wanted rows expand `nodes`, in order."""

    session: DraftSession
    rows: RowGroup
    nodes: tuple[DraftNode, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One forward. The shell answers with candidates for every wanted row."""

    number: int
    shares: tuple[StepShare, ...]

    @property
    def groups(self) -> tuple[RowGroup, ...]:
        return tuple(share.rows for share in self.shares)


Candidates = tuple[Sequence[int], Sequence[float]] | SampledCandidates
"""(token ids, estimates), best first; or what rule `ratio` drew."""


def expansion_of(
    session: DraftSession, step: int, node: DraftNode, candidates: Candidates
) -> Expansion:
    count, position = session.limits.num_candidates, node.position + 1
    if isinstance(candidates, SampledCandidates):
        token_ids = candidates.token_ids[:count]
        num_proposals = min(candidates.num_proposals, count)
        estimates = structural_estimates(num_proposals, len(token_ids))
        return Expansion(
            node.key, position, token_ids, estimates, step, num_proposals, candidates.law
        )
    ids, shares = tuple(candidates[0][:count]), tuple(candidates[1][:count])
    return Expansion(node.key, position, ids, shares, step, session.limits.num_siblings)


def span_of(step: Step, share: StepShare, start_s: float, end_s: float) -> GrowthSpan:
    return GrowthSpan(
        step=step.number,
        base_len=share.session.committed_len,
        start_ns=round(start_s * 1e9),
        end_ns=round(end_s * 1e9),
        num_rows=len(share.rows.token_ids),
    )
