import random

import pytest

from ssd.core.cost_model import CostModel, Experts, ForwardSize
from ssd.core.growth import num_worth_running
from ssd.core.ids import KvId, SlotSet
from ssd.core.rows import RowGroup

WARM_UP = [
    (ForwardSize(rows, rows * length), 0.002 + 0.001 * rows + 1e-6 * rows * length)
    for rows, length in ((1, 10), (2, 10), (8, 10), (16, 10), (1, 2000), (8, 2000))
]


def test_a_size_counts_the_slots_that_every_row_sees() -> None:
    group = RowGroup(
        kv_id=KvId("a"),
        token_ids=(1, 2),
        positions=(5, 6),
        past_len=5,
        slots=(5, 6),
        visible=(SlotSet(1), SlotSet(3)),
        wanted=(),
    )
    assert ForwardSize.of([group, group]) == ForwardSize(rows=4, pairs=28)


def test_rows_and_length_are_told_apart() -> None:
    cost = CostModel(WARM_UP)
    assert cost.forward_s(ForwardSize(4, 4 * 1000)) == pytest.approx(0.002 + 0.004 + 0.004)
    assert cost.row_s(ForwardSize(4, 4000), length=0) == pytest.approx(0.001)
    assert cost.row_s(ForwardSize(4, 4000), length=3000) == pytest.approx(0.004)


def test_the_price_of_length_follows_the_rounds() -> None:
    cost, rng = CostModel(WARM_UP), random.Random(1)
    for _ in range(400):
        rows, length = rng.randint(1, 32), rng.randint(10, 4000)
        cost.observe(ForwardSize(rows, rows * length), 0.01 + 0.0005 * rows + 4e-6 * rows * length)
    assert cost.row_s(8, length=2000) == pytest.approx(0.0085, rel=0.1)


def test_experts_touched_make_the_first_rows_dear() -> None:
    experts = Experts(count=8, per_row=2)
    assert experts.touched(1) == pytest.approx(2.0)
    assert experts.touched(100) == pytest.approx(8.0)
    warm_up = [
        (rows, 0.001 + 0.0001 * rows + 0.01 * experts.touched(rows)) for rows in (1, 2, 4, 16)
    ]
    mixture, line = CostModel(warm_up, experts=experts), CostModel(warm_up)
    assert mixture.row_s(1, length=0) > 3 * mixture.row_s(16, length=0)
    for rows, seconds in warm_up:
        assert mixture.forward_s(rows) == pytest.approx(seconds)
    assert any(abs(line.forward_s(rows) / seconds - 1.0) > 0.05 for rows, seconds in warm_up)


def test_what_was_never_told_apart_costs_nothing() -> None:
    cost = CostModel([(ForwardSize(1, 100), 0.01), (ForwardSize(8, 800), 0.017)])
    assert cost.forward_s(ForwardSize(8, 800)) == pytest.approx(0.017)
    assert cost.row_s(8, length=100) == pytest.approx(0.001)


def test_no_work_costs_less_than_nothing() -> None:
    cost = CostModel(
        [(ForwardSize(1, 10), 0.03), (ForwardSize(8, 80), 0.02), (ForwardSize(1, 900), 0.01)]
    )
    assert cost.row_s(1, length=0) >= 0.0
    assert cost.row_s(1, length=5000) >= 0.0
    assert cost.forward_s(1000) > 0.0


def test_rows_are_cheap_up_to_the_knee_and_dear_above() -> None:
    seconds = lambda rows: 0.012 + 0.0001 * rows + 0.0009 * max(rows - 12, 0)  # noqa: E731
    cost = CostModel([(rows, seconds(rows)) for rows in (1, 2, 4, 8, 12, 16, 24, 32)])
    assert cost.knee == 12
    assert cost.row_s(6, length=0) == pytest.approx(0.0001)
    assert cost.row_s(20, length=0) == pytest.approx(0.001)
    assert cost.above_knee_s == pytest.approx(0.0009)
    for _ in range(200):  # a device that others slow down keeps its knee
        for rows in (4, 9):
            cost.observe(rows, seconds(rows) + 0.006)
    assert cost.forward_s(9) > seconds(9) + 0.003
    assert cost.row_s(20, length=0) > 5 * cost.row_s(6, length=0)


def test_a_straight_line_has_no_knee() -> None:
    cost = CostModel([(rows, 0.002 + 0.001 * rows) for rows in (1, 2, 4, 8, 16)])
    assert cost.above_knee_s == pytest.approx(0.0, abs=1e-9)
    assert cost.row_s(3, length=0) == pytest.approx(cost.row_s(30, length=0))


def test_growth_runs_what_is_worth_its_row() -> None:
    dear, cheap = CostModel([(1, 0.01), (9, 0.09)]), CostModel([(1, 0.01), (9, 0.01)])
    nodes = [(0.9, 100), (0.5, 100), (0.001, 100)]
    assert num_worth_running(nodes, cheap) == 3
    assert num_worth_running(nodes, dear) == 1
    assert num_worth_running(nodes[:1], dear) == 1
    assert num_worth_running([], dear) == 0
