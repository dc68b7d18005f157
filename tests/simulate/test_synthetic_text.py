"""The synthetic language: one next token per prefix, guessed at the given rate."""

from collections import Counter

import pytest

from ssd.core.ids import PrefixKey
from ssd.core.keys import EMPTY_KEY, extend_key
from ssd.simulate.synthetic_text import VOCAB_SIZE, SyntheticText


def _ranks(text: SyntheticText, num_prefixes: int) -> Counter[int]:
    ranks: Counter[int] = Counter()
    key = extend_key(EMPTY_KEY, 1)
    for _ in range(num_prefixes):
        token_id = text.next_token(key)
        token_ids, _ = text.candidates(key, 6)
        ranks[token_ids.index(token_id) if token_id in token_ids else -1] += 1
        key = extend_key(key, token_id)
    return ranks


def test_the_first_candidate_is_right_at_the_rate_of_acceptance() -> None:
    ranks = _ranks(SyntheticText(0.8), 20_000)
    assert ranks[0] / 20_000 == pytest.approx(0.8, abs=0.01)
    assert ranks[1] / 20_000 == pytest.approx(0.1, abs=0.01)
    assert ranks[-1] / 20_000 == pytest.approx(0.2 * 0.5**5, abs=0.003)


def test_candidates_differ_and_are_in_the_vocabulary() -> None:
    text = SyntheticText(0.3)
    for key in range(2_000):
        token_ids, estimates = text.candidates(PrefixKey(key), 6)
        assert len(set(token_ids)) == len(token_ids) == len(estimates)
        assert all(0 <= each < VOCAB_SIZE for each in token_ids)


def test_a_seed_is_a_language() -> None:
    one, other = SyntheticText(0.8, seed=1), SyntheticText(0.8, seed=2)
    assert one.next_token(PrefixKey(7)) != other.next_token(PrefixKey(7))
    assert one.next_token(PrefixKey(7)) == SyntheticText(0.8, seed=1).next_token(PrefixKey(7))
