"""The classic rule: accept with probability min(1, p / q), else draw from what is left of p.

With p the target's law after a node and q the law that the node's proposal was drawn from,
(Leviathan et al. 2023, Chen et al. 2023)

    accept x with probability min(1, p(x) / q(x)),  else go on with  p' = norm(max(p - q, 0)).

Siblings drawn without replacement are tested in draw order, each against what the ones before it
left of p and with the conditional law of its own draw (SpecInfer, Sequoia, recursive rejection).
When all are rejected, or there was none, the token comes from what is left. A proposal that was not
drawn from a law is a point mass, q(x) = 1, which is exact too.

Exact for every p and q as long as nothing but structure decided that the proposals are there:
not their values, nor how probable they are. See docs/rules.md.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ssd.core.tree import ROOT, TokenTree
from ssd.sampling.coins import Coins
from ssd.sampling.draft_law import DraftLaw, Proposal

Law = NDArray[np.float64]
"""Probabilities by vocabulary id, of sum 1."""


def acceptance(target: Law, proposal: Proposal) -> float:
    """Probability that the proposal is accepted: min(1, p(x) / q(x))."""
    return min(1.0, float(target[proposal.token_id]) / proposal.probability)


def residual(target: Law, draft: DraftLaw) -> Law | None:
    """norm(max(p - q, 0)), or None where p = q leaves nothing."""
    left = target.copy()
    left[draft.token_ids] = np.maximum(left[draft.token_ids] - draft.probabilities, 0.0)
    total = float(left.sum())
    return left / total if total > 0.0 else None


def token_after(target: Law, proposals: Sequence[Proposal], coins: Coins) -> int:
    """The token that follows a node: an accepted proposal, or a draw from what they left."""
    for proposal in proposals:
        if coins.accept(acceptance(target, proposal)):
            return proposal.token_id
        left = residual(target, proposal.law)
        if left is None:  # p = q up to rounding: the proposal was as good as certain
            return proposal.token_id
        target = left
    return coins.choose(target)


def tokens_along(
    tree: TokenTree,
    proposals: Sequence[Sequence[Proposal]],
    *,
    law_after: Callable[[int], Law],
    coins_after: Callable[[int], Coins],
) -> list[int]:
    """The token that follows each node of the walk; what stands at other nodes nobody reads.

    `proposals[node]` are the node's children in draw order. A rejected proposal has no probability
    left, so the walk over these tokens (`ssd.core.tree.walk`) goes exactly where they were
    accepted.
    """
    children = tree.children()
    token_ids = [0] * tree.num_nodes
    node: int | None = ROOT
    while node is not None:
        token_ids[node] = token_after(law_after(node), proposals[node], coins_after(node))
        node = children.get((node, token_ids[node]))
    return token_ids
