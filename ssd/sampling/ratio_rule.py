"""Rule `ratio` at the target: the tokens along a tree's walk, from scores and the children's laws.

Three purposes of randomness, so that nothing is decided twice by one number: the draft's draws, the
coins of acceptance, and what is drawn from the residual. All are functions of seed and position.

A proposal is taken for a sample only if drawing from the law that was sent, with the numbers of
this seed and position, gives this very token. Where no law was sent a proposal is a point mass,
which is exact for any function of the text before it. The check finds a drafter that draws
otherwise than it says most of the time, not always: what then agrees by chance is tested with a
wrong law. So the rule is exact for drafters that send the law they draw from, as ours do.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from ssd.core.expansion import Expansion
from ssd.core.ids import SessionId
from ssd.core.read_off import PlannedTree
from ssd.core.tree import TokenTree
from ssd.sampling.block import tokens_along_chain
from ssd.sampling.coins import SeededCoins, Uniforms
from ssd.sampling.draft_law import DraftLaw, Proposal, draw_proposals
from ssd.sampling.philox import Purpose
from ssd.sampling.ratio import Law, tokens_along

MAX_SIBLINGS = 8
"""Proposals that one node may have."""


class RatioNumbers:
    """A session's random numbers under rule `ratio`."""

    def __init__(self, seed: int) -> None:
        self._accept = Uniforms(seed, Purpose.ACCEPT, num_draws=MAX_SIBLINGS)
        self._residual = Uniforms(seed, Purpose.RESIDUAL, num_draws=1)
        self._draft = Uniforms(seed, Purpose.DRAFT, num_draws=MAX_SIBLINGS)

    def target_coins(self, position: int) -> SeededCoins:
        return SeededCoins(self._accept.at(position), self._residual.at(position))

    def draft_coins(self, position: int) -> SeededCoins:
        """A draft draws and never accepts."""
        return SeededCoins([], self._draft.at(position))


class RatioRule:
    """Owns the numbers of the sessions; used by one thread."""

    def __init__(self) -> None:
        self._numbers: dict[SessionId, RatioNumbers] = {}

    def release(self, session_id: SessionId) -> None:
        self._numbers.pop(session_id, None)

    def numbers_of(self, session_id: SessionId, seed: int) -> RatioNumbers:
        """The session's numbers, made at its first round."""
        if session_id not in self._numbers:
            self._numbers[session_id] = RatioNumbers(seed)
        return self._numbers[session_id]

    def target_token_ids(
        self, scores: Tensor, planned: PlannedTree, positions: Sequence[int], numbers: RatioNumbers
    ) -> list[int]:
        """One token per node of the tree: those along the walk are what the target says.

        `scores` are processed logits over the temperature, `[num_nodes, vocab]`; `positions` those
        of the tokens to draw.

        Raises:
            FloatingPointError: a row of the walk holds NaN or +inf, or leaves no token possible.
        """

        def law_after(node: int) -> Law:
            return _law(scores[node], positions[node])

        def coins_after(node: int) -> SeededCoins:
            return numbers.target_coins(positions[node])

        proposals = [
            _proposals(expansion, drafted, numbers.draft_coins(positions[node]))
            for node, (expansion, drafted) in enumerate(
                zip(planned.expansions, _drafted(planned), strict=True)
            )
        ]
        return tokens_by_shape(
            planned.tree, proposals, law_after=law_after, coins_after=coins_after
        )


def tokens_by_shape(
    tree: TokenTree,
    proposals: Sequence[Sequence[Proposal]],
    *,
    law_after: Callable[[int], Law],
    coins_after: Callable[[int], SeededCoins],
) -> list[int]:
    """A chain is accepted as a block, which brings more tokens; a tree node by node."""
    is_chain = len(proposals) > 2 and all(len(each) == 1 for each in proposals[:-1])
    if not is_chain:
        return tokens_along(tree, proposals, law_after=law_after, coins_after=coins_after)
    chain = [each[0] for each in proposals[:-1]]
    return tokens_along_chain(chain, law_after=law_after, coins_after=coins_after)


def _drafted(planned: PlannedTree) -> list[set[int]]:
    """The tokens of each node's children."""
    drafted: list[set[int]] = [set() for _ in planned.tree.parents]
    edges = zip(planned.tree.parents[1:], planned.tree.token_ids[1:], strict=True)
    for parent, token_id in edges:
        drafted[parent].add(token_id)
    return drafted


def _proposals(
    expansion: Expansion | None, drafted: set[int], coins: SeededCoins
) -> list[Proposal]:
    """A node's children in draw order, each with the law of its draw."""
    if not drafted:
        return []
    assert expansion is not None, "a child hangs below an expansion"
    if expansion.law is not None and len(expansion.proposals) <= MAX_SIBLINGS:
        law = DraftLaw.of_sparse(expansion.law)
        drawn = draw_proposals(law, len(expansion.proposals), coins)
        if tuple(each.token_id for each in drawn) == expansion.proposals:
            return [each for each in drawn if each.token_id in drafted]
    return [Proposal(each, DraftLaw.point(each)) for each in expansion.proposals if each in drafted]


def _law(row: Tensor, position: int) -> Law:
    law: Law = row.double().softmax(dim=-1).cpu().numpy()
    if not math.isfinite(float(np.sum(law))):
        raise FloatingPointError(f"the logits yield no token at position {position}")
    return law
