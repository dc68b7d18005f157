"""The drafter's tree keeps what a commit leaves below the cursor, and frees everything else."""

import random

import pytest

from ssd.core.draft_tree import DraftNode, DraftTree
from ssd.core.edge_rates import EdgeRates
from ssd.core.keys import key_of

RATES = EdgeRates()
TEXT = (3, 1, 4)


def _tree(*, num_slots: int = 50) -> DraftTree:
    tree = DraftTree(TEXT, key_of(TEXT), num_slots=num_slots)
    tree.run_uncovered(100)
    return tree


def _grow(tree: DraftTree, *token_ids: int) -> DraftNode:
    """Run the likeliest node and expand it with these candidates."""
    node = tree.pop_best()
    assert node is not None
    tree.run(node)
    tree.expand(node, token_ids, [0.5 * 0.5**rank for rank in range(len(token_ids))], RATES)
    tree.check()
    return node


def test_the_text_before_the_cursor_waits_for_its_rows() -> None:
    tree = DraftTree(TEXT, key_of(TEXT), num_slots=10)
    assert tree.uncovered == [3, 1]
    first = tree.run_uncovered(1)
    assert (first.token_ids, first.positions, first.visible) == ([3], range(1), [1])
    second = tree.run_uncovered(5)
    assert (second.token_ids, second.positions, second.visible) == ([1], range(1, 2), [1])
    assert tree.kv_len == 2
    tree.check()


def test_the_cursor_is_the_first_to_run() -> None:
    tree = _tree()
    assert _grow(tree, 5, 6) is tree.cursor
    assert tree.cursor.slot == 2
    assert tree.seen_by(tree.cursor) == 0b1


def test_candidates_come_by_reach() -> None:
    tree = _tree()
    _grow(tree, 5, 6)
    node = _grow(tree, 7)
    assert (node.token_id, tree.depth_of(node)) == (5, 1)
    assert tree.reach_of(node) == pytest.approx(0.5)
    assert node.key == key_of((*TEXT, 5))


def test_a_commit_on_the_tree_keeps_the_subtree_and_its_kv() -> None:
    tree = _tree()
    _grow(tree, 5, 6)
    kept = _grow(tree, 7, 8)
    assert tree.advance(5)
    tree.check()
    assert tree.cursor is kept
    assert tree.reach_of(kept) == 1.0
    assert tree.kv_len == 3
    assert tree.uncovered == []
    assert _grow(tree, 9).token_id == 7


def test_a_commit_off_the_tree_frees_all_of_it() -> None:
    tree = _tree()
    _grow(tree, 5, 6)
    _grow(tree, 7)
    assert not tree.advance(9)
    tree.check()
    assert tree.slots.live == 0
    assert tree.cursor.token_id == 9
    assert tree.cursor.key == key_of((*TEXT, 9))
    assert tree.pop_best() is tree.cursor
    assert tree.pop_best() is None


def test_a_token_that_never_ran_becomes_uncovered_text() -> None:
    tree = _tree()
    _grow(tree, 5)
    tree.advance(5)
    tree.advance(6)
    tree.check()
    assert tree.uncovered == [5]
    assert tree.kv_len == 3
    assert tree.run_uncovered(1).first_position == 3


def test_candidates_of_a_node_that_was_passed_while_it_ran_are_ignored() -> None:
    tree = _tree()
    node = tree.pop_best()
    assert node is not None
    tree.run(node)
    tree.advance(5)
    tree.expand(node, (5, 6), (0.5, 0.2), RATES)
    tree.check()
    assert tree.pop_best() is tree.cursor
    assert tree.pop_best() is None


def test_candidates_of_a_node_that_was_dropped_while_it_ran_are_ignored() -> None:
    tree = _tree()
    _grow(tree, 5, 6)
    node = tree.pop_best()
    assert node is not None
    tree.run(node)
    tree.advance(6)
    tree.expand(node, (7,), (0.5,), RATES)
    tree.check()
    assert tree.pop_best() is tree.cursor


def test_candidates_of_a_node_that_became_the_cursor_while_it_ran_hang_below_it() -> None:
    tree = _tree()
    _grow(tree, 5)
    node = tree.pop_best()
    assert node is not None
    tree.run(node)
    tree.advance(5)
    tree.expand(node, (7,), (0.5,), RATES)
    tree.check()
    assert tree.cursor is node
    assert tree.advance(7)


def test_a_candidate_listed_twice_is_one_child() -> None:
    tree = _tree()
    _grow(tree, 5, 5)
    node = tree.pop_best()
    assert node is not None
    assert node.token_id == 5
    assert tree.pop_best() is None


def test_the_best_chain_counts_expanded_nodes() -> None:
    tree = _tree()
    assert tree.best_chain_len() == 0
    _grow(tree, 5, 6)
    assert tree.best_chain_len() == 1
    _grow(tree, 7)
    assert tree.best_chain_len() == 2


@pytest.mark.parametrize("is_hit", [True, False])
def test_a_long_text_leaves_nothing_behind(is_hit: bool) -> None:
    tree = _tree(num_slots=5000)
    for _ in range(1000):
        _grow(tree, 5, 6, 7, 8)
        tree.advance(5 if is_hit else 9)
        tree.run_uncovered(10)
    tree.check()
    assert tree.num_waiting < 200


@pytest.mark.parametrize("seed", range(40))
def test_books_hold_under_any_sequence_of_calls(seed: int) -> None:
    rng = random.Random(seed)
    text = [rng.randrange(6) for _ in range(rng.randint(1, 5))]
    tree = DraftTree(text, key_of(text), num_slots=400)
    running: list[DraftNode] = []
    for _ in range(150):
        verb = rng.choice(("run", "run", "done", "advance", "cover", "put back"))
        if verb == "cover":
            tree.run_uncovered(rng.randint(1, 3))
        elif verb == "run" and not tree.uncovered and (node := tree.pop_best()) is not None:
            tree.run(node)
            running.append(node)
        elif verb == "put back" and (node := tree.pop_best()) is not None:
            assert not node.is_dropped
            tree.put_back(node)
        elif verb == "done" and running:
            found = rng.sample(range(6), rng.randint(0, 3))
            tree.expand(running.pop(0), found, [rng.random() for _ in found], RATES)
        elif verb == "advance":
            listed = [token_id for _, token_id in tree.cursor.candidates]
            text.append(rng.choice((*listed, rng.randrange(6))))
            was_child = text[-1] in listed
            assert tree.advance(text[-1]) == was_child
        tree.check()
        assert tree.cursor.key == key_of(text)
        assert tree.cursor.position == len(text) - 1
        for node in tree.cursor.subtree():
            if node.slot is not None:
                assert tree.seen_by(node).bit_count() == tree.depth_of(node) + 1
        assert tree.slots.num_live <= sum(1 for _ in tree.cursor.subtree())
