"""Ways a draft may be there under rule `ratio`, and what is served then.

The draft's logits are the target's turned around, as in test_law_under_drafts.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from ssd.core.drafter_kind import DrafterKind
from ssd.core.ids import Epoch
from ssd.core.messages import Open
from ssd.core.mode import Mode
from ssd.core.ngram_limits import NgramForm, NgramLimits
from ssd.core.rule import Rule
from ssd.core.sampling_params import SamplingParams
from ssd.core.speculation_control import ControlLimits
from ssd.core.speculation_limits import SpeculationLimits
from tests.exactness.chi_square import p_value
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
