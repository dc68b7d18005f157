"""Block verification: a chain's proposals accepted together (Sun et al. 2024).

The token rule forgets, after each node, by how much the target preferred what was accepted. The
block rule carries it along: with x_1 ... x_n the chain, p_i and q_i the laws of target and draft
after x_i, and

    w_0 = 1,    w_i = min(1, w_(i-1) p_(i-1)(x_i) / q_(i-1)(x_i)),
    s_i = sum_v max(w_i p_i(v) - q_i(v), 0),
    h_n = w_n,  h_i = s_i / (s_i + 1 - w_i)   for i < n,

the walk ends at the last x_i that its own coin of probability h_i accepts, and goes on with a draw
from norm(max(w_i p_i - q_i, 0)), or from p_n at the end of the chain. The text has the target's law
and never fewer tokens on average than under the token rule.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ssd.sampling.coins import Coins
from ssd.sampling.draft_law import DraftLaw, Proposal
from ssd.sampling.ratio import Law


def tokens_along_chain(
    proposals: Sequence[Proposal],
    *,
    law_after: Callable[[int], Law],
    coins_after: Callable[[int], Coins],
) -> list[int]:
    """The token that follows each of the chain's nodes, as `ssd.sampling.ratio.tokens_along` says.

    `proposals[i]` hangs below node i.
    """
    laws = [law_after(node) for node in range(len(proposals) + 1)]
    last, last_weight, weight = 0, 1.0, 1.0
    for node, proposal in enumerate(proposals, start=1):
        share = float(laws[node - 1][proposal.token_id]) / proposal.probability
        weight = min(1.0, weight * share)
        following = proposals[node].law if node < len(proposals) else None
        if coins_after(node - 1).accept(_acceptance(weight, laws[node], following)):
            last, last_weight = node, weight
    if last < len(proposals):
        left = _left(last_weight, laws[last], proposals[last].law)
        law = left if left.sum() > 0.0 else laws[last]
    else:
        law = laws[last]
    drawn = coins_after(last).choose(law)
    accepted = [each.token_id for each in proposals[:last]]
    return [*accepted, drawn, *(0 for _ in proposals[last:])]


def _acceptance(weight: float, target: Law, following: DraftLaw | None) -> float:
    if following is None or weight == 1.0:
        return weight
    left = float(_left(weight, target, following).sum())
    return left / (left + 1.0 - weight)


def _left(weight: float, target: Law, draft: DraftLaw) -> Law:
    left = weight * target
    left[draft.token_ids] = np.maximum(left[draft.token_ids] - draft.probabilities, 0.0)
    return left
