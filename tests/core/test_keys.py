"""Prefix keys name texts."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ssd.core.keys import EMPTY_KEY, MODULUS, extend_key, key_of

TOKEN_IDS = st.lists(st.integers(0, 200_000), max_size=30)


@given(TOKEN_IDS, st.integers(0, 200_000))
def test_extending_a_key_equals_the_key_of_the_longer_text(text: list[int], token_id: int) -> None:
    assert extend_key(key_of(text), token_id) == key_of([*text, token_id])


@given(TOKEN_IDS, TOKEN_IDS)
def test_a_key_can_start_from_a_prefix(head: list[int], tail: list[int]) -> None:
    assert key_of(tail, start=key_of(head)) == key_of([*head, *tail])


def test_the_empty_text_has_the_empty_key() -> None:
    assert key_of(()) == EMPTY_KEY == 0


def test_keys_of_all_short_texts_differ() -> None:
    texts = [text for size in range(6) for text in itertools.product(range(8), repeat=size)]
    keys = {key_of(text) for text in texts}
    assert len(keys) == len(texts)
    assert all(0 <= key < MODULUS for key in keys)


def test_a_text_of_zeros_differs_from_every_shorter_one() -> None:
    assert len({key_of([0] * length) for length in range(1000)}) == 1000


def test_keys_are_fixed_for_all_time() -> None:
    """They travel between versions, so their values may not change."""
    assert key_of((1, 2, 3)) == 955270872505728337
