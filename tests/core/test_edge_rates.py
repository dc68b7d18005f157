"""Edge weights are the drafter's estimates, corrected by what the verifier counted."""

import random

import pytest

from ssd.core.edge_rates import (
    MEMORY_TESTS,
    NUM_BUCKETS,
    NUM_CELLS,
    NUM_RANKS,
    EdgeRates,
    cell_of,
)


@pytest.mark.parametrize("estimate", [0.01, 0.3, 0.5, 0.99])
def test_before_any_test_the_weight_is_the_estimate(estimate: float) -> None:
    assert EdgeRates().weight(0, estimate) == pytest.approx(estimate)


@pytest.mark.parametrize("truth", [0.05, 0.5, 0.9])
def test_the_weight_converges_to_the_rate_of_matches(truth: float) -> None:
    rates, rng = EdgeRates(), random.Random(1)
    for _ in range(1500):
        rates.record(0, 0.6, is_match=rng.random() < truth)
    assert rates.weight(0, 0.6) == pytest.approx(truth, abs=0.04)


def test_counts_of_one_rank_do_not_touch_another() -> None:
    rates = EdgeRates()
    for _ in range(100):
        rates.record(0, 0.6, is_match=False)
    assert rates.weight(1, 0.6) == pytest.approx(0.6)


def test_old_tests_fade() -> None:
    rates = EdgeRates()
    for _ in range(5000):
        rates.record(0, 0.6, is_match=False)
    for _ in range(5000):
        rates.record(0, 0.6, is_match=True)
    assert rates.weight(0, 0.6) > 0.9
    assert max(rates.tests) <= MEMORY_TESTS


@pytest.mark.parametrize("estimate", [0.0, 1.0, 1e-30, -1.0, 2.0])
@pytest.mark.parametrize("rank", [0, NUM_RANKS - 1, NUM_RANKS + 50])
def test_weights_stay_inside_zero_and_one(rank: int, estimate: float) -> None:
    assert 0.0 < EdgeRates().weight(rank, estimate) < 1.0
    assert 0 <= cell_of(rank, estimate) < NUM_CELLS


def test_cells_follow_rank_and_log_odds() -> None:
    assert cell_of(0, 0.5) == NUM_BUCKETS // 2
    assert cell_of(2, 0.5) == 2 * NUM_BUCKETS + NUM_BUCKETS // 2
    assert cell_of(0, 0.01) < cell_of(0, 0.5) < cell_of(0, 0.99)
