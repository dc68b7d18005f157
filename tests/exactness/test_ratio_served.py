"""C1, C2, C4 for rule `ratio`: the served law, however bad, wide, early, late or absent a draft is.

The draft's logits are the target's turned around, as in test_law_under_drafts. Mutants of the
service, and a drafter that breaks what the rule rests on, must fail the same test.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from drafter_service import machine as drafter_machine
from ssd.core import draft_step
from ssd.core import drafter as drafter_core
from ssd.core.drafter_kind import DrafterKind
from ssd.core.drafter_outputs import Output as DrafterOutput
from ssd.core.drafter_outputs import ToVerifier
from ssd.core.expansion import SampledCandidates
from ssd.core.ids import Epoch
from ssd.core.messages import Grow, Open
from ssd.core.mode import Mode
from ssd.core.ngram_limits import NgramForm, NgramLimits
from ssd.core.rule import Rule
from ssd.core.sampling_params import SamplingParams
from ssd.core.speculation_control import ControlLimits
from ssd.core.speculation_limits import SpeculationLimits
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
from tests.exactness.chi_square import ALPHA, p_value
from tests.exactness.dense_runner import TableLogits
from tests.exactness.in_process import (
    CALM,
    NO_NGRAMS,
    Ngrams,
    Pair,
    Shape,
    Weather,
    openings,
    texts_of,
)
from tests.exactness.shared_draws import shared_numbers
from tests.exactness.test_law_under_drafts import (
    LAW,
    LOGITS,
    NUM_TOKENS,
    PROMPT,
    VOCAB_SIZE,
    joint_law,
)

BATCH = 1_000
NUM_SOAK = 200_000


CHAIN = Shape(max_depth=3)
TREE = Shape(max_depth=2, siblings=2)
REPEATS = NgramLimits(NgramForm.MAP_K4V, size_n=1, shortest=1, num_candidates=2, max_nodes=6)


OPPOSITE = -LOGITS
OTHER = 1.2 * torch.randn(
    VOCAB_SIZE, VOCAB_SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(9)
)


@dataclass(frozen=True)
class Scenario:
    """A way the draft may be there; `fails_after` rounds the verifier is lost."""

    mode: Mode = Mode.SSD
    shape: Shape = TREE
    weather: Weather | None = CALM
    fails_after: int | None = None
    temperature: float = 1.0
    draft: torch.Tensor = OPPOSITE
    num_requests: int = 600
    num_tokens: int = NUM_TOKENS
    is_controlled: bool = True
    ngrams: Ngrams | None = None


# Every token has an expansion: the one that ends a walk was drafted further.
AHEAD = Shape(num_candidates=VOCAB_SIZE, max_nodes=2, max_depth=2, frontier=16 * BATCH)
SCENARIOS = {
    "sd chain": Scenario(Mode.SD, CHAIN),
    "chain": Scenario(shape=CHAIN),
    "tree": Scenario(shape=TREE),
    "hit": Scenario(shape=AHEAD),
    "hit tree": Scenario(shape=replace(AHEAD, siblings=3, max_nodes=4)),
    "miss": Scenario(shape=replace(CHAIN, num_candidates=1), weather=Weather(steps_per_round=1)),
    "late": Scenario(shape=TREE, weather=Weather(late=0.7)),
    "lost and doubled": Scenario(shape=TREE, weather=Weather(lost=0.3, doubled=0.3)),
    "absent": Scenario(weather=None),
    "failover": Scenario(shape=TREE, fails_after=2),
    "n-grams": Scenario(weather=None, ngrams=Ngrams(REPEATS)),
    "n-grams beside": Scenario(weather=None, ngrams=Ngrams(REPEATS, within=False, beside=True)),
}
# Long enough for a mistake to show, and for the control to act: it would pause so bad a draft.
SINGLE = Scenario(shape=AHEAD, draft=OTHER, num_requests=150, num_tokens=24, is_controlled=False)
MANY = replace(SINGLE, num_requests=300)
SIBLINGS = replace(SINGLE, shape=replace(AHEAD, siblings=3, max_nodes=3), num_requests=250)


class RatioPair(Pair):
    """A pair for one scenario."""

    @classmethod
    def of(cls, scenario: Scenario, seed: int) -> "RatioPair":
        return cls(
            TableLogits(LOGITS),
            None if scenario.weather is None else TableLogits(scenario.draft),
            vocab_size=VOCAB_SIZE,
            shape=scenario.shape,
            weather=scenario.weather or Weather(),
            seed=seed,
            ngrams=scenario.ngrams or NO_NGRAMS,
            control=ControlLimits(is_on=scenario.is_controlled),
        )


Pairs = list[Pair]


def served(
    scenario: Scenario, *, kind: type[RatioPair] = RatioPair
) -> tuple[list[tuple[int, ...]], Pairs]:
    texts: list[tuple[int, ...]] = []
    pairs: Pairs = []
    for start in range(0, scenario.num_requests, BATCH):
        asked = openings(
            PROMPT,
            seeds=range(start, start + min(BATCH, scenario.num_requests)),
            num_tokens=scenario.num_tokens,
            mode=scenario.mode,
            params=lambda seed: SamplingParams(
                temperature=scenario.temperature, seed=seed, rule=Rule.RATIO
            ),
        )
        if scenario.ngrams is not None:
            alone = SpeculationLimits(drafters=frozenset({DrafterKind.NGRAM}))
            asked = [replace(each, speculation=alone) for each in asked]
        pair = kind.of(scenario, start)
        pair.run(asked, num_rounds=scenario.fails_after)
        pairs.append(pair)
        texts += texts_of(pair) if scenario.fails_after is None else _failed_over(pair, asked)
    return texts, pairs


def _failed_over(lost: Pair, asked: Sequence[Open]) -> list[tuple[int, ...]]:
    """What is committed stays; another verifier and another drafter go on from there."""
    left = [
        replace(
            opening,
            epoch=Epoch(2),
            token_ids=(*opening.token_ids, *lost.texts[opening.session_id]),
        )
        for opening in asked
        if len(lost.texts[opening.session_id]) < NUM_TOKENS
    ]
    assert len(asked) / 10 < len(left), "this is about sessions that move"
    heir = RatioPair.of(Scenario(shape=TREE), seed=1)
    heir.run(left)
    texts = lost.texts | {name: lost.texts[name] + text for name, text in heir.texts.items()}
    return [tuple(texts[opening.session_id]) for opening in asked]


def p_of(texts: Sequence[tuple[int, ...]]) -> float:
    """The worse of two tests: the tokens together, and each given the one before it."""
    steps = [step for text in texts for step in pairwise(text)]
    before = Counter(one for one, _ in steps)
    law = {
        (one, other): before[one] / len(steps) * float(LAW[one, other])
        for one in range(VOCAB_SIZE)
        for other in range(VOCAB_SIZE)
    }
    given_before = p_value(steps, law)
    if len(texts) < 600:  # too few for 512 cells
        return given_before
    return min(given_before, p_value([text[1:4] for text in texts], joint_law()))


@pytest.fixture(scope="module", autouse=True)
def numbers() -> Iterator[None]:
    with shared_numbers():
        yield


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_law_holds_under_a_draft_turned_around(name: str) -> None:
    texts, pairs = served(SCENARIOS[name])
    assert all(len(text) == NUM_TOKENS for text in texts)
    assert p_of(texts) > ALPHA
    num_proposed = sum(pair.num_proposed for pair in pairs)
    num_accepted = sum(pair.num_accepted for pair in pairs)
    assert (num_proposed == 0) == (name == "absent")
    assert (num_accepted > 0) == (name != "absent")
    if name.startswith("hit"):
        assert sum(pair.num_hits for pair in pairs) > 600 / 2, "this is about hits"
    if name == "miss":
        assert sum(pair.num_misses for pair in pairs) > 600, "this is about misses"


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_law_holds_for_two_hundred_thousand_requests(name: str) -> None:
    texts, _ = served(replace(SCENARIOS[name], num_requests=NUM_SOAK))
    assert p_of(texts) > ALPHA


def test_at_temperature_0_both_rules_are_the_argmax() -> None:
    texts, pairs = served(Scenario(temperature=0.0, num_requests=100))
    best = LOGITS.argmax(dim=-1).tolist()
    expected, last = [], PROMPT[-1]
    for _ in range(NUM_TOKENS):
        last = best[last]
        expected.append(last)
    assert set(texts) == {tuple(expected)}
    assert pairs[0].num_proposed > 0


@pytest.mark.parametrize("scenario", [MANY, replace(SINGLE, is_controlled=True)])
def test_the_right_service_passes_where_mutants_fail(scenario: Scenario) -> None:
    """Also when the past decides whether drafts are worth asking for."""
    texts, _ = served(scenario)
    assert p_of(texts) > ALPHA


# ── the test can fail ─────────────────────────────────────────────────────────────────────────


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
