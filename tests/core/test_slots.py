"""A session's slots are committed, live or free, and never two of them."""

import random

import pytest

from ssd.core.slots import SlotLedger, slot_set


def test_the_lowest_free_slot_is_taken_first() -> None:
    ledger = SlotLedger(4)
    assert [ledger.take() for _ in range(3)] == [0, 1, 2]
    ledger.drop(slot_set(1))
    assert ledger.take() == 1


def test_taking_from_a_full_ledger_raises_and_changes_nothing() -> None:
    ledger = SlotLedger(1)
    ledger.take()
    with pytest.raises(IndexError, match="all 1 KV slots"):
        ledger.take()
    ledger.check()


@pytest.mark.parametrize("verb", ["commit", "drop"])
def test_only_live_slots_leave(verb: str) -> None:
    ledger = SlotLedger(4)
    ledger.take()
    with pytest.raises(ValueError, match="not live"):
        getattr(ledger, verb)(slot_set(0, 2))
    assert ledger.live == slot_set(0)
    ledger.check()


def test_a_ledger_without_slots_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        SlotLedger(0)


@pytest.mark.parametrize("seed", range(20))
def test_books_agree_with_sets_under_any_sequence_of_calls(seed: int) -> None:
    rng = random.Random(seed)
    ledger = SlotLedger(rng.randint(1, 70))
    committed: set[int] = set()
    live: set[int] = set()
    for _ in range(200):
        verb = rng.choice(("take", "take", "commit", "drop"))
        some = set(rng.sample(sorted(live), rng.randint(0, len(live))))
        if verb == "take" and ledger.num_free:
            slot = ledger.take()
            assert slot not in live | committed
            live.add(slot)
        elif verb == "commit":
            ledger.commit(slot_set(*some))
            live, committed = live - some, committed | some
        elif verb == "drop":
            ledger.drop(slot_set(*some))
            live -= some
        ledger.check()
        assert ledger.live == slot_set(*live)
        assert ledger.committed == slot_set(*committed)
        assert ledger.num_free == ledger.capacity - len(live) - len(committed)
