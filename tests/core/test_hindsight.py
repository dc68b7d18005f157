"""The best run in hindsight: at least as good as any choice that never changes, and as the run."""

from dataclasses import replace
from random import Random

import pytest

from ssd.core.cost_model import CostModel
from ssd.core.drafter_kind import DrafterKind
from ssd.core.hindsight import MERGED, NONE, Trial, _best_rate, _rate, hindsight
from ssd.wire.flight_file import pack, unpack
from tests.core.test_own_drafters import LIMITS, Stage, copy, novel

COST = CostModel([(1, 1.0), (9, 1.4)])


@pytest.mark.parametrize("is_right", [True, False])
def test_a_copy_is_best_drafted_by_n_grams_and_the_run_is_near_it(is_right: bool) -> None:
    stage = Stage(copy)
    stage.take(stage.core.drafter_attached("d"))
    session_id = stage.open("a")
    stage.is_right[session_id] = is_right
    stage.play(60)
    back = hindsight([stage.core.flights.record_of(session_id)], COST, max_nodes=8)
    assert back.num_rounds in (59, 60)  # the prompt may take one of its own
    assert set(back.always) == {NONE, MERGED, "model", "ngram"}
    assert back.best >= max(back.always.values()) - 1e-9
    assert back.always["ngram"] > 4.0 * back.always[NONE]
    assert 0.85 < back.reached <= 1.0
    if not is_right:
        assert back.always["model"] < back.always[NONE] + 1e-9


def test_new_text_is_best_not_drafted_for() -> None:
    stage = Stage(novel, replace(LIMITS, ngram=None))
    stage.take(stage.core.drafter_attached("d"))
    session_id = stage.open("a")
    stage.is_right[session_id] = False
    stage.play(120)
    back = hindsight([stage.core.flights.record_of(session_id)], COST, max_nodes=8)
    assert back.best == pytest.approx(back.always[NONE])
    assert back.reached > 0.9


def test_no_run_of_fixed_or_random_choices_beats_the_best() -> None:
    rng = Random(1)
    trials = [
        {name: Trial(rng.randint(1, 9), rng.uniform(0.5, 3.0)) for name in ("a", "b", "c")}
        for _ in range(200)
    ]
    best = _best_rate(trials)
    for _ in range(300):
        assert _rate([rng.choice(list(each.values())) for each in trials]) < best


def test_the_record_of_a_file_says_who_drafted() -> None:
    stage = Stage(copy)
    session_id = stage.open("a")
    stage.play(30)
    record = stage.core.flights.record_of(session_id)
    file = unpack(pack(session_id, record, reason="test", with_tokens=True))
    assert hindsight([file.segments], COST, max_nodes=8) == hindsight([record], COST, max_nodes=8)
    assert DrafterKind.NGRAM.value in hindsight([file.segments], COST, max_nodes=8).always
