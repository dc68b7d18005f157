"""The orders of growth: by reach, or by structure alone as in the SSD paper."""

from dataclasses import replace
from itertools import pairwise

import pytest

from ssd.core.edge_rates import EdgeRates
from ssd.core.fan_out import GrowthOrder, order_estimates
from tests.core import drafter_bench

ESTIMATES = (0.5, 0.3, 0.1, 0.05)


def test_by_reach_the_drafts_own_estimates_rank() -> None:
    rates = EdgeRates()
    assert order_estimates(GrowthOrder.REACH, ESTIMATES, rates) == (ESTIMATES, rates)


@pytest.mark.parametrize("order", [GrowthOrder.GEOMETRIC, GrowthOrder.UNIFORM])
def test_by_structure_they_do_not(order: GrowthOrder) -> None:
    found, counted = order_estimates(order, ESTIMATES, EdgeRates())
    assert found == order_estimates(order, (0.9, 0.05, 0.01, 0.01), EdgeRates())[0]
    assert list(found) == sorted(found, reverse=True)
    assert not any(counted.tests)


def _reach_of_a_guess(order: GrowthOrder, depth: int) -> float:
    """Of the first guess of a bonus token below so many nodes of the chain."""
    found, counted = order_estimates(order, ESTIMATES, EdgeRates())
    return counted.weight(0, found[0]) ** depth * counted.weight(1, found[1])


def test_a_geometric_fan_out_guesses_less_the_deeper_it_goes() -> None:
    reaches = [_reach_of_a_guess(GrowthOrder.GEOMETRIC, depth) for depth in range(5)]
    assert all(deeper < 0.9 * above for above, deeper in pairwise(reaches))


def test_a_uniform_fan_out_guesses_as_much_at_every_depth() -> None:
    reaches = [_reach_of_a_guess(GrowthOrder.UNIFORM, depth) for depth in range(5)]
    assert reaches == pytest.approx([reaches[0]] * 5, rel=1e-4)


@pytest.mark.parametrize("order", GrowthOrder)
def test_a_drafter_grows_its_whole_tree_in_any_order(order: GrowthOrder) -> None:
    growth = replace(drafter_bench.LIMITS.growth, order=order, max_depth=3)
    bench = drafter_bench.Bench(replace(drafter_bench.LIMITS, growth=growth))
    bench.open()
    bench.grow_all()
    assert sum(len(grow.expansions) for grow in bench.grown()) == 1 + 2 + 4
