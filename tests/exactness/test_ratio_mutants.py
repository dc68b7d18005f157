"""Mutants of the service fail the test of the law, and so does a drafter that breaks what the rule
rests on.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from drafter_service import machine as drafter_machine
from ssd.core import draft_step
from ssd.core import drafter as drafter_core
from ssd.core.drafter_outputs import Output as DrafterOutput
from ssd.core.drafter_outputs import ToVerifier
from ssd.core.expansion import SampledCandidates
from ssd.core.messages import Grow
from ssd.core.tree import TokenTree
from ssd.sampling import ratio_rule
from ssd.sampling.coins import SeededCoins
from ssd.sampling.draft_law import (
    DraftLaw,
    DraftPolicy,
    Proposal,
    draw_proposals,
    sample_candidates,
)
from ssd.sampling.ratio import tokens_along
from ssd.sampling.ratio_rule import RatioNumbers
from tests.exactness.chi_square import ALPHA
from tests.exactness.ratio_pairs import (
    MANY,
    SCENARIOS,
    SIBLINGS,
    SINGLE,
    RatioPair,
    Scenario,
    p_of,
    served,
)
from tests.exactness.shared_draws import shared_numbers


@pytest.fixture(scope="module", autouse=True)
def numbers() -> Iterator[None]:
    with shared_numbers():
        yield


@pytest.mark.parametrize("scenario", [MANY, replace(SINGLE, is_controlled=True)])
def test_the_right_service_passes_where_mutants_fail(scenario: Scenario) -> None:
    """Also when the past decides whether drafts are worth asking for."""
    texts, _ = served(scenario)
    assert p_of(texts) > ALPHA


def _send_another_law(patch: pytest.MonkeyPatch) -> None:
    """C4: q at another temperature."""
    sample = drafter_machine.sample_candidates

    def mutant(scores: torch.Tensor, *args: Any, **kwargs: Any) -> list[SampledCandidates]:
        right = sample(scores, *args, **kwargs)
        hot = sample(0.3 * scores, *args, **kwargs)
        return [replace(one, law=other.law) for one, other in zip(right, hot, strict=True)]

    patch.setattr(drafter_machine, "sample_candidates", mutant)


def _trust_any_law(patch: pytest.MonkeyPatch) -> None:
    """The same, with the verifier's check switched off."""
    _send_another_law(patch)

    def mutant(expansion: object, drafted: set[int], coins: SeededCoins) -> list[Proposal]:
        proposals = []
        if drafted:
            law = DraftLaw.of_sparse(expansion.law)  # type: ignore[attr-defined]
            for token_id in expansion.proposals:  # type: ignore[attr-defined]
                proposals.append(Proposal(token_id, law))
                law = law.without(token_id)
        return [each for each in proposals if each.token_id in drafted]

    patch.setattr(ratio_rule, "_proposals", mutant)


def _test_with_the_law_before_the_cut(patch: pytest.MonkeyPatch) -> None:
    """C4: sampled from the likeliest two, tested with the probabilities of all."""
    _trust_any_law(patch)
    sample = sample_candidates

    def mutant(
        scores: torch.Tensor, policy: DraftPolicy, *args: Any, **kwargs: Any
    ) -> list[SampledCandidates]:
        cut = sample(scores, replace(policy, law_len=2), *args, **kwargs)
        whole = sample(scores, policy, *args, **kwargs)
        return [replace(one, law=other.law) for one, other in zip(cut, whole, strict=True)]

    patch.setattr(drafter_machine, "sample_candidates", mutant)


def _keep_the_likelier_of_two(patch: pytest.MonkeyPatch) -> None:
    """C4: of two branches the better by content stays, as if it had been drawn."""
    _trust_any_law(patch)
    sample = sample_candidates

    def weight(one: SampledCandidates) -> float:
        assert one.law is not None
        return dict(zip(*one.law.unpacked(), strict=True))[one.token_ids[0]]

    def mutant(scores: torch.Tensor, *args: Any, **kwargs: Any) -> list[SampledCandidates]:
        pairs = zip(*(sample(scores, *args, **kwargs) for _ in range(2)), strict=True)
        return [max(pair, key=weight) for pair in pairs]

    patch.setattr(drafter_machine, "sample_candidates", mutant)


def _verify_twice(patch: pytest.MonkeyPatch) -> None:
    """C4: what was rejected is asked again, with fresh numbers."""
    along, chance = tokens_along, random.Random(5)

    def again(node: int) -> SeededCoins:
        return SeededCoins([chance.random()], [chance.random()])

    def mutant(
        tree: TokenTree,
        proposals: Sequence[Sequence[Proposal]],
        *,
        law_after: Callable[[int], np.ndarray],
        coins_after: Callable[[int], SeededCoins],
    ) -> list[int]:
        token_ids = along(tree, proposals, law_after=law_after, coins_after=coins_after)
        first = [each.token_id for each in proposals[0]]
        if not first or token_ids[0] in first:
            return token_ids
        return along(tree, proposals, law_after=law_after, coins_after=again)

    patch.setattr(ratio_rule, "tokens_by_shape", mutant)


def _share_the_drafts_numbers(patch: pytest.MonkeyPatch) -> None:
    """C4: accept and residual by the numbers that drew the proposals."""

    def mutant(numbers: RatioNumbers, position: int) -> SeededCoins:
        drawn = numbers._draft.at(position)
        return SeededCoins(drawn, drawn)

    patch.setattr(RatioNumbers, "target_coins", mutant)


def _test_likeliest_sibling_first(patch: pytest.MonkeyPatch) -> None:
    draw = draw_proposals

    def mutant(law: DraftLaw, num_proposals: int, coins: SeededCoins) -> list[Proposal]:
        ids = [each.token_id for each in draw(law, num_proposals, coins)]
        ids.sort(key=lambda each: -Proposal(each, law).probability)
        proposals = []
        for token_id in ids:
            proposals.append(Proposal(token_id, law))
            law = law.without(token_id)
        return proposals

    patch.setattr("ssd.sampling.draft_law.draw_proposals", mutant)
    patch.setattr(ratio_rule, "draw_proposals", mutant)


def _greedy_filler_on_a_miss(patch: pytest.MonkeyPatch) -> None:
    """Where nothing was drafted a filler stands, and it is matched with the target's best."""
    along = tokens_along

    def mutant(
        tree: TokenTree,
        proposals: Sequence[Sequence[Proposal]],
        *,
        law_after: Callable[[int], np.ndarray],
        coins_after: Callable[[int], SeededCoins],
    ) -> list[int]:
        if not proposals[0]:
            return [int(law_after(0).argmax())]
        return along(tree, proposals, law_after=law_after, coins_after=coins_after)

    patch.setattr(ratio_rule, "tokens_by_shape", mutant)


def _discard_the_bonus(patch: pytest.MonkeyPatch) -> None:
    """After a rejection the token is drawn again, from the whole law."""
    along = tokens_along

    def mutant(
        tree: TokenTree,
        proposals: Sequence[Sequence[Proposal]],
        *,
        law_after: Callable[[int], np.ndarray],
        coins_after: Callable[[int], SeededCoins],
    ) -> list[int]:
        token_ids = along(tree, proposals, law_after=law_after, coins_after=coins_after)
        first = [each.token_id for each in proposals[0]]
        if first and token_ids[0] not in first:
            token_ids[0] = coins_after(0).choose(law_after(0))
        return token_ids

    patch.setattr(ratio_rule, "tokens_by_shape", mutant)


def _send_the_confident(patch: pytest.MonkeyPatch) -> None:
    """C4: a proposal's own probability decides whether a verification gets to see it, as growth by
    that probability does, and a launch that waits for a confident chain."""
    honest = draft_step.expansion_of

    def mutant(*args: object) -> object:
        expansion = honest(*args)  # type: ignore[arg-type]
        assert expansion.law is not None
        shares = dict(zip(*expansion.law.unpacked(), strict=True))
        is_likely = shares[expansion.token_ids[0]] > 0.25 * sum(shares.values())
        return replace(expansion, num_proposals=int(is_likely))

    patch.setattr(drafter_core, "expansion_of", mutant)


# Those marked soak fail the exact sum of tests/sampling/test_ratio_law.py in milliseconds too.
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("mutate", "scenario"),
    [
        (_send_another_law, SINGLE),
        pytest.param(_trust_any_law, SINGLE, marks=pytest.mark.soak),
        pytest.param(_test_with_the_law_before_the_cut, SINGLE, marks=pytest.mark.soak),
        pytest.param(
            _keep_the_likelier_of_two, replace(SINGLE, num_requests=600), marks=pytest.mark.soak
        ),
        (_verify_twice, MANY),
        (_share_the_drafts_numbers, SINGLE),
        pytest.param(_test_likeliest_sibling_first, SIBLINGS, marks=pytest.mark.soak),
        (_greedy_filler_on_a_miss, SCENARIOS["late"]),
        pytest.param(_discard_the_bonus, MANY, marks=pytest.mark.soak),
        (_send_the_confident, MANY),
    ],
)
def test_a_mutant_of_the_service_fails(
    monkeypatch: pytest.MonkeyPatch,
    mutate: Callable[[pytest.MonkeyPatch], None],
    scenario: Scenario,
) -> None:
    mutate(monkeypatch)
    texts, _ = served(scenario)
    assert p_of(texts) < ALPHA


class SlowForSome(RatioPair):
    """A fake drafter whose delay depends on what it drew: odd tokens come a round too late."""

    def _take_drafter(self, name: str, outputs: list[DrafterOutput]) -> None:
        for output in outputs:
            if isinstance(output, ToVerifier) and isinstance(output.message, Grow):
                kept = [each for each in output.message.expansions if each.token_ids[0] % 2 == 0]
                grow = replace(output.message, expansions=tuple(kept))
                super()._take_drafter(name, [ToVerifier(output.peer, grow)])
            else:
                super()._take_drafter(name, [output])


def test_a_drafter_whose_delay_depends_on_what_it_drew_fails() -> None:
    """The guarantee switched off: the law rests on delays that know nothing of the values."""
    texts, _ = served(MANY, kind=SlowForSome)
    assert p_of(texts) < ALPHA
