"""What a drafter grows: how many candidates, how far, how wide.

Candidates matter more than depth: with four per node, one round in five ended on a token the
drafter had not listed, with eight, one in twenty-five; six is the middle. While the verifier waits,
a narrow frontier brings the first steps sooner than a wide one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ssd.core.cost_model import CostModel, ForwardSize
from ssd.core.fan_out import GrowthOrder


@dataclass(frozen=True, slots=True)
class GrowthLimits:
    """Bounds of one session's growth below its cursor.

    `frontier` nodes run per step over all sessions, `urgent_frontier` while some verifier waits,
    which is assumed until the best chain is `urgent_depth` deep. While nobody waits a step runs
    only where the reach of its nodes adds up to `min_step_reach`: less is worth less than what the
    step costs a verification that shares memory or power with it. `max_nodes` bounds the live KV.
    What was found is sent once the reach of its nodes adds up to `push_reach`: a message is worth
    its cost when the text will probably pass one of them. Where a step takes longer than a message
    costs, less is enough, in proportion. `num_siblings` candidates of a node may
    be verified (None: all); the others are only grown ahead. `order` says which nodes come first.
    """

    num_candidates: int = 6
    frontier: int = 12
    urgent_frontier: int = 2
    urgent_depth: int = 2
    max_depth: int = 20
    min_reach: float = 1e-3
    min_step_reach: float = 0.15
    max_nodes: int = 128
    push_reach: float = 1.0
    num_siblings: int | None = None
    order: GrowthOrder = GrowthOrder.REACH

    def __post_init__(self) -> None:
        counts = ("num_candidates", "frontier", "urgent_frontier", "max_depth", "max_nodes")
        for name in counts:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    def to_depth(self, depth: int) -> "GrowthLimits":
        """As many full steps as the depth, the first of which has the cursor alone."""
        return replace(self, max_depth=depth, max_nodes=1 + self.frontier * (depth - 1))


def chain_limits(depth: int) -> GrowthLimits:
    """Mode `sd`: one candidate per node, `depth` nodes, sent together."""
    return GrowthLimits(
        num_candidates=1,
        frontier=1,
        urgent_frontier=1,
        urgent_depth=0,
        max_depth=depth,
        min_reach=0.0,
        min_step_reach=0.0,
        max_nodes=depth + 1,
        push_reach=math.inf,
    )


def tree_limits(depth: int, frontier: int, growth: GrowthLimits) -> GrowthLimits:
    """Mode `sd` with trees: `depth` steps of `frontier` nodes, ranked as in mode `ssd`, sent
    together."""
    limits = replace(
        growth,
        frontier=frontier,
        urgent_frontier=frontier,
        urgent_depth=0,
        push_reach=math.inf,
    )
    return limits.to_depth(depth)


def num_worth_running(nodes: Sequence[tuple[float, int]], cost: CostModel) -> int:
    """How many of (reach, text length), best first, a step should run that somebody waits for.

    A node is left for the next step when it would bring less reach for the time its row takes than
    those before it, which it delays, bring for theirs.
    """
    reach, size = 0.0, ForwardSize(0)
    for number, (node_reach, length) in enumerate(nodes):
        row_s = cost.row_s(size, length=length)
        if number > 0 and node_reach * cost.forward_s(size) < reach * row_s:
            return number
        reach += node_reach
        size = ForwardSize(size.rows + 1, size.pairs + length)
    return len(nodes)
