"""The map of expansions takes everything that arrives, in any order, and stays bounded."""

import itertools

import pytest

from ssd.core.expansion import Expansion
from ssd.core.expansion_map import MAX_EXPANSIONS, ExpansionMap
from ssd.core.ids import PrefixKey


def _expansion(key: int, position: int = 1, **candidates: float) -> Expansion:
    """Candidates as t<id>=estimate."""
    token_ids = tuple(int(name[1:]) for name in candidates)
    return Expansion(PrefixKey(key), position, token_ids, tuple(candidates.values()))


def test_what_was_merged_is_found_by_its_key() -> None:
    known = ExpansionMap()
    known.merge(_expansion(7, t1=0.5))
    assert known.get(PrefixKey(7)) == _expansion(7, t1=0.5)
    assert known.get(PrefixKey(8)) is None


def test_a_duplicate_changes_nothing() -> None:
    known = ExpansionMap()
    known.merge(_expansion(7, t1=0.5, t2=0.1))
    known.merge(_expansion(7, t1=0.4, t2=0.3))
    assert known.get(PrefixKey(7)) == _expansion(7, t1=0.5, t2=0.1)


def test_another_drafters_candidates_are_added_by_their_estimates() -> None:
    known = ExpansionMap()
    known.merge(_expansion(7, t1=0.5, t2=0.1))
    known.merge(_expansion(7, t3=0.3, t1=0.9))
    assert known.get(PrefixKey(7)) == _expansion(7, t1=0.5, t3=0.3, t2=0.1)


def test_the_order_of_arrival_does_not_change_what_is_known() -> None:
    arrivals = [_expansion(key, key, **{f"t{key}": 0.5}) for key in (1, 2, 3)]
    for order in itertools.permutations(arrivals):
        known = ExpansionMap()
        for each in order:
            known.merge(each)
        assert {known.get(PrefixKey(key)) for key in (1, 2, 3)} == set(arrivals)


def test_a_full_map_forgets_the_oldest() -> None:
    known = ExpansionMap()
    for key in range(MAX_EXPANSIONS + 10):
        known.merge(_expansion(key, 1 + key % 5, t0=0.1))
        known.check()
    assert len(known) == MAX_EXPANSIONS == 1024
    assert all(known.get(PrefixKey(key)) is None for key in range(10))
    assert known.get(PrefixKey(10)) is not None


def test_what_proposes_committed_tokens_is_forgotten() -> None:
    known = ExpansionMap()
    for key in range(10):
        known.merge(_expansion(key, key, t0=0.1))
    known.forget_below(4)
    known.check()
    assert [key for key in range(10) if known.get(PrefixKey(key))] == [4, 5, 6, 7, 8, 9]


def test_an_expansion_needs_an_estimate_for_each_token() -> None:
    with pytest.raises(ValueError, match="2 tokens, 1 estimates"):
        Expansion(PrefixKey(0), 1, (1, 2), (0.5,))
