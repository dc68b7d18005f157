"""Coordinators that share a verifier are never promised more than it has free."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssd.core.credit import Credit


@given(
    sessions=st.integers(0, 300),
    slots=st.integers(0, 10**6),
    num_owners=st.integers(0, 20),
)
def test_all_credits_together_are_no_more_than_what_is_free(
    sessions: int, slots: int, num_owners: int
) -> None:
    part = Credit.share(sessions=sessions, slots=slots, num_others=0, num_owners=num_owners)
    assert part.sessions * num_owners <= sessions
    assert part.slots * num_owners <= slots


@pytest.mark.parametrize(
    ("credit", "num_slots", "is_covered"),
    [(Credit(1, 50), 50, True), (Credit(1, 49), 50, False), (Credit(0, 500), 50, False)],
)
def test_a_session_needs_a_place_and_its_slots(
    credit: Credit, num_slots: int, is_covered: bool
) -> None:
    assert credit.covers(num_slots) is is_covered


def test_credit_is_spent_and_never_below_nothing() -> None:
    assert Credit(2, 100, 7).less(60) == Credit(1, 40, 7)
    assert Credit(2, 100, 7).less(60).less(60).less(60) == Credit(0, 0, 7)
