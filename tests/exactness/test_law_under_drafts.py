"""C1, C5, C6: no draft bends the law, however bad, wide, early, late or absent it is.

The texts of two thousand seeds without a drafter follow the law, and with one each is the same
text, token for token, which says more than a law. The draft's logits are the target's turned
around, so that a rule that favours what was drafted shows at once. Mutants of the rule must fail
both tests.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import torch
from torch import Tensor

from ssd.core.ids import KvId
from ssd.core.mode import Mode
from ssd.core.rows import Meanwhile, RowGroup, nothing_meanwhile
from ssd.sampling import DrawSpec, target_token_ids
from tests.exactness.chi_square import ALPHA, p_value
from tests.exactness.dense_runner import TableLogits
from tests.exactness.in_process import Pair, Shape, Weather, openings, texts_of
from tests.exactness.shared_draws import shared_noise
from verifier_service.machine import VerifierMachine

VOCAB_SIZE = 8
PROMPT = (3, 1)
NUM_TOKENS = 4
NUM_REQUESTS = 2_000
NUM_DRAFTED = 500
BATCH = 1_000
LOGITS = 1.2 * torch.randn(
    VOCAB_SIZE, VOCAB_SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(8)
)
LAW = LOGITS.softmax(dim=-1)

CHAIN = Shape(num_candidates=1, max_depth=3)
TREE = Shape(num_candidates=3, max_depth=2)
# All candidates are grown and few are verified: the token that ends a walk was drafted further.
AHEAD = Shape(num_candidates=VOCAB_SIZE, max_nodes=2, max_depth=2, frontier=16 * BATCH)
SIBLINGS = Shape(num_candidates=VOCAB_SIZE, max_nodes=VOCAB_SIZE, max_depth=1)
SCENARIOS = {
    "chain": (Mode.SD, CHAIN, Weather()),
    "tree": (Mode.SSD, TREE, Weather()),
    "hit": (Mode.SSD, AHEAD, Weather()),
    "siblings": (Mode.SSD, SIBLINGS, Weather()),
    "miss": (Mode.SSD, CHAIN, Weather(steps_per_round=1)),
    "late": (Mode.SSD, TREE, Weather(late=0.7)),
    "lost": (Mode.SSD, TREE, Weather(lost=0.3, doubled=0.3)),
}
ABSENT = (Mode.SSD, TREE, None)


@pytest.fixture(scope="module", autouse=True)
def noise() -> Iterator[None]:
    positions = range(len(PROMPT), len(PROMPT) + NUM_TOKENS)
    with shared_noise(positions, seeds=range(NUM_REQUESTS), vocab_size=VOCAB_SIZE):
        yield


@cache
def joint_law() -> dict[tuple[int, ...], float]:
    """Of the second, third and fourth token: the first comes before any draft."""
    law: dict[tuple[int, ...], float] = {}
    start = LAW[PROMPT[-1]] @ LAW
    for cell in product(range(VOCAB_SIZE), repeat=3):
        law[cell] = float(start[cell[0]] * LAW[cell[0], cell[1]] * LAW[cell[1], cell[2]])
    return law


Texts = list[tuple[int, ...]]


def served(
    mode: Mode,
    shape: Shape,
    weather: Weather | None,
    *,
    draft: Tensor = -LOGITS,
    num_requests: int = NUM_DRAFTED,
) -> tuple[Texts, list[Pair]]:
    texts: Texts = []
    pairs = []
    target, drafter = TableLogits(LOGITS), TableLogits(draft)
    for start in range(0, num_requests, BATCH):
        pair = Pair(
            target,
            None if weather is None else drafter,
            vocab_size=VOCAB_SIZE,
            shape=shape,
            weather=weather or Weather(),
            seed=start,
        )
        seeds = range(start, min(start + BATCH, num_requests))
        pair.run(openings(PROMPT, seeds=seeds, num_tokens=NUM_TOKENS, mode=mode))
        pairs.append(pair)
        texts += texts_of(pair)
    return texts, pairs


@pytest.fixture(scope="module")
def plain(noise: None) -> Texts:
    """Without a drafter."""
    texts, pairs = served(*ABSENT, num_requests=NUM_REQUESTS)
    assert sum(pair.num_proposed for pair in pairs) == 0
    return texts


def test_plain_texts_follow_the_law(plain: Texts) -> None:
    """C5: the first token after the prompt too."""
    assert p_value([text[1:] for text in plain], joint_law()) > ALPHA
    first = dict(enumerate(LAW[PROMPT[-1]].tolist()))
    assert p_value([text[0] for text in plain], first) > ALPHA
    assert len({text[0] for text in plain}) == VOCAB_SIZE, "not greedy"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_draft_turned_around_changes_no_text(plain: Texts, name: str) -> None:
    texts, pairs = served(*SCENARIOS[name])
    assert texts == plain[:NUM_DRAFTED]
    assert sum(pair.num_proposed for pair in pairs) > 0
    if name == "hit":
        assert sum(pair.num_hits for pair in pairs) > NUM_DRAFTED / 2, "this is about hits"
    if name == "miss":
        assert sum(pair.num_misses for pair in pairs) > NUM_DRAFTED, "this is about misses"


def test_a_draft_of_the_targets_argmax_is_accepted_as_often_as_the_target_draws_it(
    plain: Texts,
) -> None:
    """C6."""
    best = LOGITS.argmax(dim=-1)
    certain = torch.zeros_like(LOGITS)
    certain[torch.arange(VOCAB_SIZE), best] = 50.0
    texts, pairs = served(Mode.SD, CHAIN, Weather(), draft=certain)
    assert sum(pair.num_accepted for pair in pairs) > 0
    assert texts == plain[:NUM_DRAFTED]
    is_best = [text[1] == int(best[text[0]]) for text in plain]
    expected = float((LAW[PROMPT[-1]] * LAW[torch.arange(VOCAB_SIZE), best]).sum())
    assert p_value(is_best, {True: expected, False: 1.0 - expected}) > ALPHA


# ── the test can fail ─────────────────────────────────────────────────────────────────────────


class _RemembersLogits:
    """The target, and what it said last."""

    def __init__(self, runner: TableLogits) -> None:
        self._runner = runner
        self.last = torch.empty(0)

    def forward(
        self, groups: Sequence[RowGroup], *, meanwhile: Meanwhile = nothing_meanwhile
    ) -> Tensor:
        self.last = self._runner.forward(groups, meanwhile=meanwhile)
        return self.last

    def copy(self, source: KvId, target: KvId, num_slots: int, *, held: int = 0) -> None:
        self._runner.copy(source, target, num_slots, held=held)

    def release(self, kv_id: KvId) -> None:
        self._runner.release(kv_id)


def _accept_what_equals_the_argmax(patch: pytest.MonkeyPatch) -> None:
    """A drafted child that is the target's argmax is taken, whatever the draw said."""
    run = VerifierMachine.run

    def mutant(machine: VerifierMachine, meanwhile: Meanwhile = nothing_meanwhile) -> bool:
        machine._runner = remembering = _RemembersLogits(machine._runner)  # type: ignore[arg-type]
        ran = run(machine, meanwhile)
        machine._runner = remembering._runner
        if ran and machine._done is not None:
            token_ids = list(machine._done.token_ids)
            best = remembering.last.argmax(dim=-1).tolist()
            row = 0
            for share in machine._done.round.shares:
                if share.planned is not None:
                    children = share.planned.tree.children()
                    for node in range(share.planned.tree.num_nodes):
                        if (node, best[row + node]) in children:
                            token_ids[row + node] = best[row + node]
                row += len(share.rows.wanted)
            machine._done = replace(machine._done, token_ids=token_ids)
        return ran

    patch.setattr(VerifierMachine, "run", mutant)


def _noise_of_one_position_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Each token alone has the right law; together they do not."""

    def mutant(logits: Tensor, draws: Sequence[DrawSpec]) -> list[int]:
        moved = [replace(draw, position=len(PROMPT)) for draw in draws]
        return target_token_ids(logits, moved)

    patch.setattr("verifier_service.machine.target_token_ids", mutant)


def _greedy_below_the_root(patch: pytest.MonkeyPatch) -> None:
    """Drawn where the text stands, argmax inside the tree."""

    def mutant(logits: Tensor, draws: Sequence[DrawSpec]) -> list[int]:
        drawn, best = target_token_ids(logits, draws), logits.argmax(dim=-1).tolist()
        roots = [
            index == 0 or draws[index - 1].noise is not each.noise
            for index, each in enumerate(draws)
        ]
        return [
            one if is_root else other
            for one, other, is_root in zip(drawn, best, roots, strict=True)
        ]

    patch.setattr("verifier_service.machine.target_token_ids", mutant)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mutate",
    [
        _accept_what_equals_the_argmax,
        _noise_of_one_position_everywhere,
        _greedy_below_the_root,
    ],
)
def test_a_mutant_of_the_rule_fails(
    plain: Texts, monkeypatch: pytest.MonkeyPatch, mutate: object
) -> None:
    assert callable(mutate)
    mutate(monkeypatch)
    texts, _ = served(*SCENARIOS["siblings"], num_requests=NUM_REQUESTS)
    assert p_value([text[1:] for text in texts], joint_law()) < ALPHA
    assert texts[:NUM_DRAFTED] != plain[:NUM_DRAFTED]
