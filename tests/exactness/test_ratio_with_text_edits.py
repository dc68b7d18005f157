"""Rule `ratio` with penalties, bias, bans and a cut: p is the law after them, at every node.

Summed exactly with the shipped edits and rules, and drawn through both cores and machines. The
reference is the definitions of the edits read aloud (`slow_edit`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch

from ssd.core.mode import Mode
from ssd.core.rule import Rule
from ssd.core.sampling_params import SamplingParams
from ssd.sampling import DrawSpec, PathEdits, TextEdits, perturbed_scores
from ssd.sampling.draft_law import DraftLaw
from ssd.sampling.ratio import Law
from tests.exactness.chi_square import ALPHA, p_value
from tests.exactness.dense_runner import TableLogits
from tests.exactness.in_process import Pair, Shape, Weather, openings, texts_of
from tests.exactness.shared_draws import shared_numbers
from tests.sampling.every_coin import EveryCoin, law_of
from tests.sampling.ratio_models import completed, distance, drafted_tree, verified
from tests.sampling.test_text_edits import slow_edit

Prefix = tuple[int, ...]

VOCAB_SIZE = 5
PROMPT = (3, 1)
NUM_TOKENS = 4
EDITED = SamplingParams(
    temperature=0.8,
    top_k=3,
    rule=Rule.RATIO,
    repetition_penalty=1.6,
    presence_penalty=0.7,
    frequency_penalty=0.6,
    logit_bias=((2, 0.8), (0, -0.5)),
    banned_sequences=((1, 2), (4, 4)),
    min_tokens=2,
    end_token_ids=(0,),
)
LOGITS = 1.5 * torch.randn(
    VOCAB_SIZE, VOCAB_SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(4)
)
SHAPES = {
    "chain": Shape(max_depth=3),
    "tree": Shape(max_depth=2, siblings=2, num_candidates=VOCAB_SIZE),
}


class ByDefinition:
    """The target's law after each output, one token after the other."""

    def law_after(self, output: Prefix) -> Law:
        row = LOGITS[(*PROMPT, *output)[-1]].tolist()
        edited = np.array(slow_edit(row, EDITED, output, PROMPT)) / EDITED.temperature
        kept = np.argsort(-edited, kind="stable")[: EDITED.top_k]
        law = np.zeros(VOCAB_SIZE)
        law[kept] = np.exp(edited[kept])
        return law / law.sum()


class AsShipped:
    """The laws at the nodes of a tree below one committed text, by the shipped edits."""

    def __init__(self, table: torch.Tensor, committed: Prefix) -> None:
        self._table = table
        self._text = TextEdits(EDITED, prompt_len=len(PROMPT), vocab_size=VOCAB_SIZE)
        self._committed = (*PROMPT, *committed)
        self._text.follow(self._committed)
        self.law_after = cache(self._law_after)

    def _law_after(self, path: Prefix) -> Law:
        text = (*self._committed, *path)
        draw = DrawSpec(EDITED, len(text), None, PathEdits(self._text, path))
        scores = perturbed_scores(self._table[text[-1]].unsqueeze(0), [draw])
        law: Law = scores[0].softmax(dim=-1).numpy()
        return law

    def draft_law(self, path: Prefix) -> DraftLaw:
        law = self.law_after(path)
        order = np.argsort(-law, kind="stable")
        order = order[law[order] > 0.0]
        return DraftLaw(order, law[order])


@pytest.mark.parametrize(
    ("widths", "as_block"), [((1, 1), False), ((1, 1), True), ((2, 1), False), ((2,), False)]
)
@pytest.mark.parametrize("committed", [(), (1,), (4, 2, 4)])
def test_the_sum_over_all_coins_is_the_edited_law(
    committed: Prefix, widths: Sequence[int], *, as_block: bool
) -> None:
    target, draft = AsShipped(LOGITS, committed), AsShipped(-LOGITS, committed)

    def program(coins: EveryCoin) -> Prefix:
        tree, proposals, paths = drafted_tree(draft.draft_law, widths, coins)
        laws = [target.law_after(path) for path in paths]
        return (*committed, *verified(tree, proposals, laws, coins, as_block=as_block))

    length = len(committed) + len(widths) + 1
    plain = completed({committed: 1.0}, ByDefinition(), length)
    assert distance(completed(law_of(program), ByDefinition(), length), plain) < 1e-12


def served(shape: Shape, num_requests: int) -> tuple[list[Prefix], int]:
    pair = Pair(
        TableLogits(LOGITS),
        TableLogits(-LOGITS),
        vocab_size=VOCAB_SIZE,
        shape=shape,
        weather=Weather(late=0.2),
    )
    asked = openings(
        PROMPT,
        seeds=range(num_requests),
        num_tokens=NUM_TOKENS,
        mode=Mode.SSD,
        params=lambda seed: replace(EDITED, seed=seed),
    )
    with shared_numbers():
        pair.run(asked)
    return texts_of(pair), pair.num_accepted


@cache
def edited_law() -> dict[Prefix, float]:
    """Of all four tokens."""
    model = ByDefinition()
    law: dict[Prefix, float] = {}
    for text in product(range(VOCAB_SIZE), repeat=NUM_TOKENS):
        steps = [model.law_after(text[:end])[text[end]] for end in range(NUM_TOKENS)]
        law[text] = float(np.prod(steps))
    return law


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_served_has_the_edited_law(name: str) -> None:
    texts, num_accepted = served(SHAPES[name], 400)
    assert p_value(texts, edited_law()) > ALPHA
    assert num_accepted > 30


def _edit_by_the_committed_text_alone(patch: pytest.MonkeyPatch) -> None:
    apply = TextEdits.apply

    def mutant(text: TextEdits, rows: torch.Tensor, paths: Sequence[Prefix]) -> None:
        apply(text, rows, [()] * len(paths))

    patch.setattr(TextEdits, "apply", mutant)


def test_edits_that_know_no_path_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    _edit_by_the_committed_text_alone(monkeypatch)
    texts, _ = served(SHAPES["tree"], 400)
    assert p_value(texts, edited_law()) < ALPHA
