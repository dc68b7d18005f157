"""The trainer's parts that decide whether a run in a given time ends well."""

import random

import pytest

pytest.importorskip("torch", reason="needs the engine extra")
pytest.importorskip("transformers", reason="needs the engine extra")

import torch

from scripts import pair_evaluation, pair_models, pair_training
from scripts.pair_distillation import continue_rows, distillation_loss
from scripts.pair_training import Batch

TINY = pair_models.ModelSize(16, 32, 1, 2, 1, num_positions=64)


def test_rate_warms_up_and_ends_annealed() -> None:
    rates = [pair_training.learning_rate_share(step / 100) for step in range(101)]
    assert rates[0] < 0.1
    assert max(rates) > 0.95
    assert rates[-1] == pytest.approx(pair_training.FINAL_RATE_SHARE)


def test_resumed_time_box_counts_what_was_spent() -> None:
    assert pair_training.TimeBox(limit_s=60, spent_before_s=30).share == 0.5


def test_positions_ascend_and_reach_far_but_stay_below_the_limit() -> None:
    rng = random.Random(1)
    drawn = torch.cat([pair_training.positions(rng, 4, 32, limit=2048) for _ in range(200)])
    assert (drawn.diff(dim=1) >= 1).all()
    assert 1800 < int(drawn.max()) < 2048


def test_a_leap_in_positions_hides_nothing() -> None:
    model = pair_models.build_model(TINY, vocab_size=32, seed=1)
    position_ids = torch.tensor([[0, 1, 2, 20, 21, 22]])
    one, other = (
        pair_training.logits_of(model, Batch(torch.tensor([[first, 2, 3, 4, 5, 6]]), position_ids))
        for first in (1, 9)
    )
    assert not torch.equal(one[:, -1], other[:, -1])


def test_a_model_diverges_from_itself_by_nothing() -> None:
    model = pair_models.build_model(TINY, vocab_size=32, seed=1)
    batch = Batch(torch.randint(32, (2, 8)), torch.arange(8).repeat(2, 1))
    assert distillation_loss(model)(model, batch).item() == pytest.approx(0, abs=1e-5)


def test_greedy_rows_are_what_a_pass_without_cache_says() -> None:
    model = pair_models.build_model(TINY, vocab_size=32, seed=1)
    rows = continue_rows(model, torch.tensor([[1, 2, 3], [4, 5, 6]]), 12, temperature=0)
    logits = model(input_ids=rows, use_cache=False).logits
    assert torch.equal(logits[:, 2:-1].argmax(dim=-1), rows[:, 3:])


def test_a_model_accepts_itself_always() -> None:
    model = pair_models.build_model(TINY, vocab_size=32, seed=1)
    prompts = torch.randint(32, (2, 4), generator=torch.Generator().manual_seed(1))
    accepted = pair_evaluation.greedy_acceptance(
        model, model, prompts, num_tokens=8, stop_ids=frozenset({0})
    )
    assert accepted == 1.0
