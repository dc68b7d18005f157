"""Random models of few ids, and one verification of what a draft samples below a root."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol

import numpy as np

from ssd.core.tree import ROOT, TokenTree, emitted_token_ids, walk
from ssd.sampling.block import tokens_along_chain
from ssd.sampling.coins import Coins
from ssd.sampling.draft_law import DraftLaw, Proposal, draw_proposals
from ssd.sampling.ratio import Law, tokens_along

Prefix = tuple[int, ...]


class RandomModel:
    """A law after every prefix, as different as seeds make it; some tokens may be impossible."""

    def __init__(self, vocab_size: int, seed: int, *, num_possible: int | None = None) -> None:
        self.vocab_size = vocab_size
        self._seed = seed
        self._num_possible = num_possible or vocab_size
        self.law_after = cache(self._law_after)

    def _law_after(self, prefix: Prefix) -> Law:
        rng = np.random.default_rng([self._seed, len(prefix), *prefix])
        law = np.zeros(self.vocab_size)
        possible = rng.permutation(self.vocab_size)[: self._num_possible]
        law[possible] = rng.dirichlet(np.full(self._num_possible, 0.7))
        return law

    def draft_law(self, prefix: Prefix) -> DraftLaw:
        """Likeliest first, as a drafter sends it."""
        law = self.law_after(prefix)
        order = np.argsort(-law, kind="stable")
        order = order[law[order] > 0.0]
        return DraftLaw(order, law[order])


def drafted_tree(
    draft: Callable[[Prefix], DraftLaw], widths: Sequence[int], coins: Coins
) -> tuple[TokenTree, list[list[Proposal]], list[Prefix]]:
    """A full tree of sampled proposals: `widths[depth]` siblings below each node of a depth.

    Returns the tree, each node's proposals, and the prefix at each node.
    """
    prefixes: list[Prefix] = [()]
    parents, token_ids, proposals = [ROOT], [0], []
    for node, prefix in enumerate(prefixes):  # grows as it goes
        width = widths[len(prefix)] if len(prefix) < len(widths) else 0
        proposals.append(draw_proposals(draft(prefix), width, coins))
        for each in proposals[-1]:
            prefixes.append((*prefix, each.token_id))
            parents.append(node)
            token_ids.append(each.token_id)
    return TokenTree(tuple(token_ids), tuple(parents)), proposals, prefixes


def verified(
    tree: TokenTree,
    proposals: Sequence[Sequence[Proposal]],
    laws: Sequence[Law],
    coins: Coins,
    *,
    as_block: bool = False,
) -> tuple[int, ...]:
    """The tokens that one verification emits, by the shipped rules and the shipped walk."""
    if as_block:
        chain = [each[0] for each in proposals[:-1]]
        target = tokens_along_chain(
            chain, law_after=lambda node: laws[node], coins_after=lambda node: coins
        )
    else:
        target = tokens_along(
            tree, proposals, law_after=lambda node: laws[node], coins_after=lambda node: coins
        )
    return emitted_token_ids(tree, walk(tree, target))


class Laws(Protocol):
    """Says what may follow a prefix."""

    @property
    def law_after(self) -> Callable[[Prefix], Law]: ...


def completed(law: dict[Prefix, float], target: Laws, length: int) -> dict[Prefix, float]:
    """The law of the first `length` tokens, when plain decoding goes on after what was emitted."""
    full: dict[Prefix, float] = {}
    pending = list(law.items())
    while pending:
        text, probability = pending.pop()
        if len(text) >= length:
            full[text[:length]] = full.get(text[:length], 0.0) + probability
            continue
        following = target.law_after(text)
        pending += [((*text, each), probability * p) for each, p in enumerate(following.tolist())]
    return full


def plain_law(target: Laws, length: int) -> dict[Prefix, float]:
    """What plain decoding draws."""
    return completed({(): 1.0}, target, length)


def distance(one: dict[Prefix, float], other: dict[Prefix, float]) -> float:
    """The largest difference of two laws at any text."""
    return max(abs(one.get(text, 0.0) - other.get(text, 0.0)) for text in {*one, *other})
