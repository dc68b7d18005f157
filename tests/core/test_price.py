"""The cost model finds the line behind noisy times; the price follows what is earned."""

import random

import pytest

from ssd.core.price import CostModel, Price


def test_two_warm_up_times_give_their_line() -> None:
    cost = CostModel([(1, 0.011), (9, 0.019)])
    assert cost.per_row_s == pytest.approx(0.001)
    assert cost.forward_s(5) == pytest.approx(0.015)


def test_observed_rounds_give_back_their_line() -> None:
    cost, rng = CostModel([(1, 0.0075), (32, 0.0685)]), random.Random(1)
    for _ in range(2000):
        rows = rng.randint(1, 32)
        cost.observe(rows, 0.005 + 0.002 * rows + rng.uniform(-1e-3, 1e-3))
    assert cost.per_row_s == pytest.approx(0.002, rel=0.02)
    assert cost.forward_s(10) == pytest.approx(0.025, rel=0.02)


def test_a_changed_machine_is_noticed() -> None:
    cost = CostModel([(1, 0.01), (8, 0.01)])
    for index in range(300):
        cost.observe(1 + index % 8, 0.03 + 0.01 * (index % 8))
    assert cost.forward_s(4) > 0.04
    assert cost.per_row_s > 0.005


def test_a_row_never_costs_less_than_nothing() -> None:
    cost = CostModel([(1, 0.02), (8, 0.01)])
    assert cost.per_row_s == 0.0
    assert cost.forward_s(1000) > 0.0


def test_a_forward_never_takes_less_than_nothing() -> None:
    assert CostModel([(64, 0.01), (256, 0.1)]).forward_s(1) > 0.0


def test_rounds_of_one_size_are_enough() -> None:
    cost = CostModel([(1, 0.01), (8, 0.017)])
    for _ in range(500):
        cost.observe(3, 0.012)
    assert cost.per_row_s == pytest.approx(0.001, rel=0.2)


def test_a_warm_up_of_one_size_is_refused() -> None:
    with pytest.raises(ValueError, match="two sizes"):
        CostModel([(4, 0.01), (4, 0.02)])


def test_before_the_first_round_the_price_is_that_of_plain_decoding() -> None:
    assert Price(plain_round_s=0.02).tokens_per_s == pytest.approx(50.0)


def test_the_price_follows_what_rounds_earn() -> None:
    price = Price(plain_round_s=0.02)
    for _ in range(500):
        price.observe(4, 0.02)
    assert price.tokens_per_s == pytest.approx(200.0, rel=0.01)


def test_a_round_too_short_to_measure_has_a_price() -> None:
    """A line through two large forwards may say that one row takes no time."""
    cost = CostModel([(64, 0.01), (256, 0.1)])
    assert Price(plain_round_s=cost.forward_s(1)).tokens_per_s > 0.0
