"""Mode `sd` with trees: ssd's node set, drafted while the verifier waits."""

from dataclasses import replace

import pytest

from ssd.core.expansion import Expansion
from ssd.core.growth import chain_limits, tree_limits
from ssd.core.keys import key_of
from ssd.core.mode import Mode
from ssd.core.verifier_round import Idle
from tests.core import drafter_bench, verifier_bench
from tests.core.drafter_bench import MODEL, TEXT

GROWTH = drafter_bench.LIMITS.growth


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_drafter_takes_as_many_steps_as_the_tree_is_deep_and_sends_once(depth: int) -> None:
    growth = replace(GROWTH, urgent_frontier=2)
    limits = replace(drafter_bench.LIMITS, growth=growth, chain=tree_limits(depth, 2, growth))
    bench = drafter_bench.Bench(limits)
    bench.open(mode=Mode.SD)
    assert bench.grow_all() == depth
    (grow,) = bench.grown()
    assert grow.is_exhausted
    assert len(grow.expansions) == 1 + 2 * (depth - 1)
    assert all(len(each.token_ids) == 2 for each in grow.expansions)
    following = MODEL.next_token(TEXT)
    bench.commit(TEXT, following)
    assert bench.grow_all() > 0, "the next text is drafted for once it is committed, not before"


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_chain_cut_to_a_depth_is_the_chain_of_that_depth(depth: int) -> None:
    cut, whole = chain_limits(8).to_depth(depth), chain_limits(depth)
    assert replace(cut, max_nodes=whole.max_nodes) == whole
    bench = drafter_bench.Bench(replace(drafter_bench.LIMITS, chain=cut))
    bench.open(mode=Mode.SD)
    assert bench.grow_all() == depth


def test_a_verifier_waits_for_the_whole_tree_and_then_verifies_siblings_too() -> None:
    limits = replace(verifier_bench.LIMITS, sd_is_tree=True)
    bench = verifier_bench.Bench(limits)
    bench.attach()
    bench.open(mode=Mode.SD)
    bench.prefill()
    assert isinstance(bench.core.next_action(bench.now), Idle)
    bench.grow(Expansion(key_of(TEXT), len(TEXT), (5, 6), (0.5, 0.4)))
    assert isinstance(bench.core.next_action(bench.now), Idle), "more of the tree may come"
    bench.grow(is_exhausted=True)
    assert bench.start().num_rows == 3
