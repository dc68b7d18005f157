"""C1, C2, C4 for rule `ratio`: the served law, however bad, wide, late or lost drafts are."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.exactness.chi_square import ALPHA
from tests.exactness.ratio_pairs import NUM_SOAK, SCENARIOS, Scenario, p_of, served
from tests.exactness.shared_draws import shared_numbers
from tests.exactness.test_law_under_drafts import (
    LOGITS,
    NUM_TOKENS,
    PROMPT,
)


@pytest.fixture(scope="module", autouse=True)
def numbers() -> Iterator[None]:
    with shared_numbers():
        yield


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_law_holds_under_a_draft_turned_around(name: str) -> None:
    texts, pairs = served(SCENARIOS[name])
    assert all(len(text) == NUM_TOKENS for text in texts)
    assert p_of(texts) > ALPHA
    num_proposed = sum(pair.num_proposed for pair in pairs)
    num_accepted = sum(pair.num_accepted for pair in pairs)
    assert (num_proposed == 0) == (name == "absent")
    assert (num_accepted > 0) == (name != "absent")
    if name.startswith("hit"):
        assert sum(pair.num_hits for pair in pairs) > 600 / 2, "this is about hits"
    if name == "miss":
        assert sum(pair.num_misses for pair in pairs) > 600, "this is about misses"


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_law_holds_for_two_hundred_thousand_requests(name: str) -> None:
    texts, _ = served(replace(SCENARIOS[name], num_requests=NUM_SOAK))
    assert p_of(texts) > ALPHA


def test_at_temperature_0_both_rules_are_the_argmax() -> None:
    texts, pairs = served(Scenario(temperature=0.0, num_requests=100))
    best = LOGITS.argmax(dim=-1).tolist()
    expected, last = [], PROMPT[-1]
    for _ in range(NUM_TOKENS):
        last = best[last]
        expected.append(last)
    assert set(texts) == {tuple(expected)}
    assert pairs[0].num_proposed > 0
