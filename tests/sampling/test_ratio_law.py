"""The rule `ratio` is exact: every way its coins may fall, added up, is the target's law to 1e-12.

Full trees and chains over random laws of up to six ids and three levels. Mutants, each a mistake
somebody made with this rule, are seen by the same sum.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from ssd.core.tree import ROOT
from ssd.sampling import ratio
from ssd.sampling.coins import Coins, Weights
from ssd.sampling.draft_law import DraftLaw, Proposal, biased, draw_proposals
from tests.sampling.every_coin import EveryCoin, law_of
from tests.sampling.ratio_models import (
    Prefix,
    RandomModel,
    completed,
    distance,
    drafted_tree,
    plain_law,
    verified,
)

EXACT = 1e-12
WRONG = 1e-3

CHAINS = [(vocab, (1,) * depth) for vocab in (2, 3, 4, 5, 6) for depth in (1, 2, 3)]
TREES = [(6, (2,)), (6, (3,)), (5, (4,)), (6, (2, 1)), (4, (3, 1)), (3, (2, 2)), (3, (2, 1, 1))]


@dataclass(frozen=True)
class Case:
    """A target, a draft, and how the drawn tree looks."""

    target: RandomModel
    draft: Callable[[Prefix], DraftLaw]
    widths: Sequence[int]
    as_block: bool = False

    def text_law(self) -> dict[Prefix, float]:
        """Of the first tokens, one more than the tree is deep."""

        def program(coins: EveryCoin) -> Prefix:
            tree, proposals, prefixes = drafted_tree(self.draft, self.widths, coins)
            laws = [self.target.law_after(prefix) for prefix in prefixes]
            return verified(tree, proposals, laws, coins, as_block=self.as_block)

        return completed(law_of(program), self.target, self.length)

    @property
    def length(self) -> int:
        return len(self.widths) + 1

    def error(self) -> float:
        return distance(self.text_law(), plain_law(self.target, self.length))


def case(vocab_size: int, widths: Sequence[int], seed: int = 0) -> Case:
    draft = RandomModel(vocab_size, seed=100 + seed)
    return Case(RandomModel(vocab_size, seed=seed), draft.draft_law, widths)


@pytest.mark.parametrize(("vocab_size", "widths"), CHAINS + TREES)
def test_the_token_rule_is_exact(vocab_size: int, widths: Sequence[int]) -> None:
    assert case(vocab_size, widths).error() < EXACT


@pytest.mark.parametrize(("vocab_size", "widths"), CHAINS)
def test_the_block_rule_is_exact(vocab_size: int, widths: Sequence[int]) -> None:
    assert replace(case(vocab_size, widths), as_block=True).error() < EXACT


@pytest.mark.parametrize("widths", [(1, 1), (2,), (3,), (2, 1)])
def test_the_law_holds_when_laws_have_holes(widths: Sequence[int]) -> None:
    """top-k and top-p leave impossible ids on both sides, seldom the same."""
    target = RandomModel(5, seed=1, num_possible=3)
    draft = RandomModel(5, seed=2, num_possible=3)
    assert Case(target, draft.draft_law, widths).error() < EXACT


@pytest.mark.parametrize("as_block", [False, True])
@pytest.mark.parametrize("widths", [(1, 1), (1, 1, 1)])
def test_a_draft_equal_to_the_target_is_always_accepted(
    widths: Sequence[int], *, as_block: bool
) -> None:
    """C2: the residual of p = q is empty, and nobody asks for it."""
    target = RandomModel(4, seed=3)
    same = Case(target, target.draft_law, widths, as_block=as_block)
    assert same.error() < EXACT

    def program(coins: EveryCoin) -> Prefix:
        tree, proposals, prefixes = drafted_tree(same.draft, widths, coins)
        laws = [target.law_after(prefix) for prefix in prefixes]
        text = verified(tree, proposals, laws, coins, as_block=as_block)
        return (len(text),)

    lengths = law_of(program)
    assert lengths[len(widths) + 1,] == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("top_weight", [0.7, 0.25, 1e-3])
@pytest.mark.parametrize("widths", [(1, 1), (2, 1)])
def test_saguaro_changes_the_draft_and_not_the_text(
    top_weight: float, widths: Sequence[int]
) -> None:
    draft = RandomModel(4, seed=4)

    def law(prefix: Prefix) -> DraftLaw:
        plain = draft.draft_law(prefix)
        weights = biased(plain.weights, num_keys=2, top_weight=top_weight)
        return DraftLaw(plain.token_ids, weights)

    assert Case(RandomModel(4, seed=5), law, widths).error() < EXACT


def test_point_masses_are_exact() -> None:
    """Tokens that nobody drew, such as an n-gram's: two siblings, then one."""
    target = RandomModel(4, seed=6)

    def program(coins: EveryCoin) -> Prefix:
        fixed = [Proposal(each, DraftLaw.point(each)) for each in (2, 0)]
        text = ratio.token_after(target.law_after(()), fixed, coins)
        return (text,)

    assert distance(law_of(program), plain_law(target, 1)) < EXACT


def test_a_part_of_the_drawn_siblings_is_exact() -> None:
    """The budget may leave out any of them: which ones must not depend on what they are."""
    target, draft = RandomModel(5, seed=7), RandomModel(5, seed=8)
    for kept in ([0], [1], [2], [0, 2], [1, 2]):

        def program(coins: EveryCoin, kept: list[int] = kept) -> Prefix:
            drawn = draw_proposals(draft.draft_law(()), 3, coins)
            return (ratio.token_after(target.law_after(()), [drawn[i] for i in kept], coins),)

        assert distance(law_of(program), plain_law(target, 1)) < EXACT, kept


def test_the_block_rule_accepts_more_than_the_token_rule() -> None:
    """On average over the same draws; the two are equal at depth 1."""
    for depth in (1, 2, 3):
        means = []
        for as_block in (False, True):
            total = 0.0
            for seed in range(4):
                one = replace(case(4, (1,) * depth, seed), as_block=as_block)

                def program(coins: EveryCoin, one: Case = one) -> Prefix:
                    tree, proposals, prefixes = drafted_tree(one.draft, one.widths, coins)
                    laws = [one.target.law_after(prefix) for prefix in prefixes]
                    text = verified(tree, proposals, laws, coins, as_block=one.as_block)
                    return (len(text),)

                total += sum(length[0] * mass for length, mass in law_of(program).items())
            means.append(total)
        if depth == 1:
            assert means[1] == pytest.approx(means[0])
        else:
            assert means[1] > means[0] + 1e-3


# ── the sum can see a mistake ─────────────────────────────────────────────────────────────────


def _one_token(
    rule: Callable[[RandomModel, RandomModel, EveryCoin], int], *, vocab_size: int = 4
) -> float:
    """How far a wrong way to draw one token is from the target's law."""
    target, draft = RandomModel(vocab_size, seed=20), RandomModel(vocab_size, seed=21)
    law: dict[Prefix, float] = law_of(lambda coins: (rule(target, draft, coins),))
    return distance(law, plain_law(target, 1))


def _right(target: RandomModel, draft: RandomModel, coins: EveryCoin) -> int:
    drawn = draw_proposals(draft.draft_law(()), 1, coins)
    return ratio.token_after(target.law_after(()), drawn, coins)


def _draft_law_at_another_temperature(
    target: RandomModel, draft: RandomModel, coins: EveryCoin
) -> int:
    (drawn,) = draw_proposals(draft.draft_law(()), 1, coins)
    cooled = DraftLaw(drawn.law.token_ids, drawn.law.weights**2)
    return ratio.token_after(target.law_after(()), [Proposal(drawn.token_id, cooled)], coins)


def _raw_draft_law_after_truncation(
    target: RandomModel, draft: RandomModel, coins: EveryCoin
) -> int:
    """Sampled from the top two, tested with the probabilities from before the cut."""
    whole = draft.draft_law(())
    cut = DraftLaw(whole.token_ids[:2], whole.weights[:2])
    (drawn,) = draw_proposals(cut, 1, coins)
    return ratio.token_after(target.law_after(()), [Proposal(drawn.token_id, whole)], coins)


def _siblings_sorted_by_probability(
    target: RandomModel, draft: RandomModel, coins: EveryCoin
) -> int:
    law = draft.draft_law(())
    drawn = draw_proposals(law, 2, coins)
    best_first = sorted(drawn, key=lambda each: -Proposal(each.token_id, law).probability)
    first, second = (each.token_id for each in best_first)
    tested = [Proposal(first, law), Proposal(second, law.without(first))]
    return ratio.token_after(target.law_after(()), tested, coins)


def _best_of_two_branches(target: RandomModel, draft: RandomModel, coins: EveryCoin) -> int:
    """Two independent draws; the one that the target likes better is tested as if it were one."""
    law, wanted = draft.draft_law(()), target.law_after(())
    pair = [draw_proposals(law, 1, coins)[0] for _ in range(2)]
    best = max(pair, key=lambda each: wanted[each.token_id])
    return ratio.token_after(wanted, [best], coins)


def _verified_twice(target: RandomModel, draft: RandomModel, coins: EveryCoin) -> int:
    drawn = draw_proposals(draft.draft_law(()), 1, coins)
    wanted = target.law_after(())
    once = ratio.token_after(wanted, drawn, coins)
    return once if once == drawn[0].token_id else ratio.token_after(wanted, drawn, coins)


def _bonus_discarded(target: RandomModel, draft: RandomModel, coins: EveryCoin) -> int:
    """What the rejection left is thrown away, and the token is drawn again from the whole law."""
    drawn = draw_proposals(draft.draft_law(()), 1, coins)
    once = ratio.token_after(target.law_after(()), drawn, coins)
    return once if once == drawn[0].token_id else coins.choose(target.law_after(()))


def _residual_soft_maxed(target: RandomModel, draft: RandomModel, coins: EveryCoin) -> int:
    """C2."""
    (drawn,) = draw_proposals(draft.draft_law(()), 1, coins)
    wanted = target.law_after(())
    if coins.accept(ratio.acceptance(wanted, drawn)):
        return drawn.token_id
    left = ratio.residual(wanted, drawn.law)
    assert left is not None
    return coins.choose(np.exp(left))


def _greedy_match_of_a_filler(target: RandomModel, draft: RandomModel, coins: EveryCoin) -> int:
    """A miss filled with the draft's best token, taken where it is the target's best too."""
    filler = int(target.law_after(()).argmax())
    return filler if coins.accept(0.5) else _right(target, draft, coins)


def _top_candidates_tested_as_samples(
    target: RandomModel, draft: RandomModel, coins: EveryCoin
) -> int:
    """C1: siblings by top-k, each tested with min(1, p / q)."""
    law = draft.draft_law(())
    tested = [Proposal(int(each), law) for each in law.token_ids[:2]]
    return ratio.token_after(target.law_after(()), tested, coins)


MUTANTS = [
    _draft_law_at_another_temperature,
    _raw_draft_law_after_truncation,
    _siblings_sorted_by_probability,
    _best_of_two_branches,
    _verified_twice,
    _bonus_discarded,
    _residual_soft_maxed,
    _greedy_match_of_a_filler,
    _top_candidates_tested_as_samples,
]


def test_the_right_rule_passes_where_mutants_fail() -> None:
    assert _one_token(_right) < EXACT


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_of_the_rule_fails(
    mutant: Callable[[RandomModel, RandomModel, EveryCoin], int],
) -> None:
    assert _one_token(mutant) > WRONG


def test_noise_shared_with_the_draft_fails() -> None:
    """One number draws the proposal and decides its acceptance: swept over a fine grid."""
    target, draft = RandomModel(4, seed=22), RandomModel(4, seed=23)
    wanted, law = target.law_after(()), draft.draft_law(())

    class OneNumber:
        def __init__(self, uniform: float) -> None:
            self._uniform = uniform

        def accept(self, probability: float) -> bool:
            return self._uniform < probability

        def choose(self, weights: Weights) -> int:
            cumulative = weights.cumsum() / weights.sum()
            return int(cumulative.searchsorted(self._uniform, side="right").clip(0, 3))

    counts = np.zeros(4)
    grid = (np.arange(4_000) + 0.5) / 4_000
    for uniform in grid:
        coins: Coins = OneNumber(float(uniform))
        counts[ratio.token_after(wanted, draw_proposals(law, 1, coins), coins)] += 1
    assert np.abs(counts / len(grid) - wanted).max() > WRONG


def test_the_root_is_where_plain_decoding_draws() -> None:
    """No proposal at all: the token comes from the target's own law."""
    target = RandomModel(6, seed=9)
    bare = Case(target, RandomModel(6, seed=10).draft_law, (0,))
    tree, proposals, _ = drafted_tree(bare.draft, bare.widths, EveryCoin([]))
    assert tree.num_nodes == ROOT + 1
    assert proposals == [[]]
    assert replace(bare, widths=()).error() < EXACT
