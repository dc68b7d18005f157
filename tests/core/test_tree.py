"""The walk follows the target's own tokens, whatever the tree holds."""

import itertools
from collections.abc import Iterator

import pytest

from ssd.core.tree import TokenTree, emitted_token_ids, walk

#      root ─┬─ 1 ─┬─ 2
#            │     └─ 3
#            └─ 4
TREE = TokenTree(token_ids=(0, 1, 2, 3, 4), parents=(0, 0, 1, 1, 0))


def _all_trees(num_nodes: int) -> Iterator[TokenTree]:
    """Every shape, with token ids that tell siblings apart."""
    for tail in itertools.product(*(range(node) for node in range(1, num_nodes))):
        parents = (0, *tail)
        token_ids = [9]
        for node in range(1, num_nodes):
            token_ids.append(sum(parents[other] == parents[node] for other in range(1, node)))
        yield TokenTree(tuple(token_ids), parents)


def _plain(tree: TokenTree, target: tuple[int, ...]) -> tuple[int, ...]:
    """The definition, slowly: draw, look for that child, go there."""
    node, text = 0, []
    while True:
        text.append(target[node])
        below = [
            child
            for child in range(1, tree.num_nodes)
            if tree.parents[child] == node and tree.token_ids[child] == target[node]
        ]
        if not below:
            return tuple(text)
        node = below[0]


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 4, 5])
def test_the_walk_emits_the_targets_draws_on_every_small_tree(num_nodes: int) -> None:
    for tree in _all_trees(num_nodes):
        for target in itertools.product(range(3), repeat=num_nodes):
            outcome = walk(tree, target)
            assert emitted_token_ids(tree, outcome) == _plain(tree, target)
            assert outcome.bonus_token_id == target[outcome.last_node]
            parents = [tree.parents[node] for node in outcome.path]
            assert parents == [0, *outcome.path][: len(parents)]


def test_a_fully_accepted_path_ends_with_the_bonus_token_of_its_leaf() -> None:
    outcome = walk(TREE, (1, 3, 7, 8, 7))
    assert outcome.path == (1, 3)
    assert outcome.bonus_token_id == 8


def test_nothing_accepted_still_emits_one_token() -> None:
    outcome = walk(TREE, (6, 0, 0, 0, 0))
    assert outcome.path == ()
    assert emitted_token_ids(TREE, outcome) == (6,)
    assert outcome.last_node == 0


def test_a_sibling_is_taken_when_the_target_draws_it() -> None:
    assert walk(TREE, (4, 0, 0, 0, 5)).path == (4,)


def test_a_bare_root_is_plain_decoding() -> None:
    assert walk(TokenTree((3,), (0,)), (5,)).path == ()


@pytest.mark.parametrize("parents", [(0, 1), (0, 2, 1), (0, 0, 2)])
def test_a_parent_after_its_child_is_refused(parents: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="precede"):
        TokenTree(tuple(range(len(parents))), parents)


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 tokens, 1 parents"):
        TokenTree((1, 2), (0,))


def test_a_tree_without_a_root_is_refused() -> None:
    with pytest.raises(ValueError, match="0 tokens"):
        TokenTree((), ())
