"""Trees are read off the maps best first, over all sessions, while a node is worth its row."""

import random
from collections.abc import Callable

import pytest

from ssd.core.edge_rates import EdgeRates
from ssd.core.expansion import Expansion
from ssd.core.expansion_map import ExpansionMap
from ssd.core.keys import extend_key, key_of
from ssd.core.read_off import PlannedTree, Soil, read_off
from ssd.core.source_rates import SourceRates

TEXT = (3, 1, 4)
Children = dict[int, float]


def _soil(
    grown: dict[tuple[int, ...], Children], *, max_nodes: int = 100, max_depth: int = 100
) -> Soil:
    """A map that knows the candidates after each continuation of the text."""
    expansions = ExpansionMap()
    for step, (path, children) in enumerate(grown.items(), start=1):
        key, position = key_of(TEXT + path), len(TEXT + path)
        expansions.merge(Expansion(key, position, tuple(children), tuple(children.values()), step))
    return Soil(TEXT[-1], key_of(TEXT), expansions, SourceRates().weights, max_nodes, max_depth)


def _always(reach: float, num_nodes: int) -> bool:
    return True


def _one(
    soil: Soil, *, max_nodes: int = 100, is_worth: Callable[[float, int], bool] = _always
) -> PlannedTree:
    [planned] = read_off([soil], max_nodes=max_nodes, is_worth=is_worth)
    return planned


GROWN = {(): {5: 0.6, 6: 0.3}, (5,): {7: 0.9, 8: 0.05}, (6,): {9: 0.9}}
# reach: 5 .6, 5-7 .54, 6 .3, 6-9 .27, 5-8 .03


def test_an_empty_map_gives_the_bare_root() -> None:
    planned = _one(_soil({}))
    assert (planned.tree.token_ids, planned.tree.parents) == ((4,), (0,))
    assert planned.depth == 0
    assert planned.steps == ()


def test_nodes_are_taken_by_reach() -> None:
    planned = _one(_soil(GROWN))
    assert planned.tree.token_ids == (4, 5, 7, 6, 9, 8)
    assert planned.tree.parents == (0, 0, 1, 0, 3, 1)
    assert planned.depth == 2


@pytest.mark.parametrize("limit", range(6))
def test_the_budget_takes_the_best_nodes(limit: int) -> None:
    assert _one(_soil(GROWN), max_nodes=limit).tree.token_ids == (4, 5, 7, 6, 9, 8)[: limit + 1]


@pytest.mark.parametrize("limit", range(6))
def test_a_sessions_limit_takes_the_best_nodes(limit: int) -> None:
    soil = _soil(GROWN, max_nodes=limit)
    assert _one(soil).tree.token_ids == (4, 5, 7, 6, 9, 8)[: limit + 1]


def test_no_node_is_deeper_than_the_text_has_room() -> None:
    assert _one(_soil(GROWN, max_depth=1)).tree.token_ids == (4, 5, 6)
    assert _one(_soil(GROWN, max_depth=0)).tree.token_ids == (4,)


def test_a_node_below_its_price_ends_the_harvest() -> None:
    asked: list[float] = []

    def is_worth(reach: float, num_nodes: int) -> bool:
        assert num_nodes == min(len(asked), 3)
        asked.append(round(reach, 3))
        return reach >= 0.28

    assert _one(_soil(GROWN), is_worth=is_worth).tree.token_ids == (4, 5, 7, 6)
    assert asked[:4] == [0.6, 0.54, 0.3, 0.27]


def test_sessions_share_the_budget_by_reach() -> None:
    likely = _soil({(): {5: 0.9}, (5,): {7: 0.9}, (5, 7): {8: 0.9}})
    unlikely = _soil({(): {5: 0.75}, (5,): {7: 0.9}})
    first, second = read_off([likely, unlikely], max_nodes=4, is_worth=_always)
    assert first.tree.token_ids == (4, 5, 7, 8)
    assert second.tree.token_ids == (4, 5)


def test_one_sessions_limit_leaves_the_budget_to_the_others() -> None:
    likely = _soil({(): {5: 0.9}, (5,): {7: 0.9}}, max_nodes=1)
    first, second = read_off([likely, _soil(GROWN)], max_nodes=3, is_worth=_always)
    assert first.tree.token_ids == (4, 5)
    assert second.tree.token_ids == (4, 5, 7)


def test_expansions_of_another_text_are_not_found() -> None:
    assert _one(_soil({(5,): {7: 0.9}})).tree.num_nodes == 1


def test_the_steps_that_proposed_a_node_are_named() -> None:
    assert _one(_soil(GROWN), max_nodes=2).steps == (1, 2)
    assert _one(_soil(GROWN), max_nodes=3).steps == (1, 2)
    assert _one(_soil(GROWN), max_nodes=4).steps == (1, 2, 3)


def test_a_bare_root_is_wholly_open() -> None:
    assert _one(_soil({})).open_reach == 1.0


def test_what_is_open_is_the_likeliest_node_without_an_expansion() -> None:
    assert _one(_soil(GROWN)).open_reach == pytest.approx(0.54)


def test_a_full_tree_is_not_open() -> None:
    assert _one(_soil(GROWN, max_nodes=2)).open_reach == 0.0


def test_a_node_at_the_end_of_the_text_is_not_open() -> None:
    assert _one(_soil(GROWN, max_depth=2)).open_reach == 0.0
    assert _one(_soil({}, max_depth=0)).open_reach == 0.0


def test_nothing_is_open_when_the_batch_has_no_room() -> None:
    assert _one(_soil({}), max_nodes=0).open_reach == 0.0


def test_nothing_is_open_when_no_node_would_be_worth_its_row() -> None:
    assert _one(_soil({}), is_worth=lambda *_: False).open_reach == 0.0


@pytest.mark.parametrize("seed", range(30))
def test_the_tree_is_the_best_of_its_size(seed: int) -> None:
    """No node outside it has more reach than one inside, by brute force."""
    rng = random.Random(seed)
    grown: dict[tuple[int, ...], Children] = {}
    paths: list[tuple[int, ...]] = [()]
    reach: dict[tuple[int, ...], float] = {(): 1.0}
    while paths and len(grown) < 12:
        path = paths.pop(rng.randrange(len(paths)))
        grown[path] = {each: rng.uniform(0.05, 0.9) for each in rng.sample(range(9), 3)}
        for token_id, estimate in grown[path].items():
            reach[(*path, token_id)] = reach[path] * EdgeRates().weight(0, estimate)
            paths.append((*path, token_id))
    limit = rng.randint(0, 20)
    planned = _one(_soil(grown), max_nodes=limit)
    held = []
    names: list[tuple[int, ...]] = [()]
    for node in range(1, planned.tree.num_nodes):
        name = (*names[planned.tree.parents[node]], planned.tree.token_ids[node])
        names.append(name)
        held.append(reach[name])
    assert len(set(names)) == len(names)
    best = sorted((value for path, value in reach.items() if path), reverse=True)
    assert held == pytest.approx(best[: len(held)])
    assert len(held) == min(limit, len(best))


def test_what_is_planned_for_nodes_is_what_the_map_holds() -> None:
    soil = _soil(GROWN)
    planned = _one(soil)
    keys = [soil.cursor]
    for node in range(1, planned.tree.num_nodes):
        keys.append(extend_key(keys[planned.tree.parents[node]], planned.tree.token_ids[node]))
    assert planned.expansions == tuple(soil.expansions.get(key) for key in keys)
