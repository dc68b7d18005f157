"""A session's slots are committed, live or free, and what lies in them follows the moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssd.core.slots import Move, SlotLedger


def test_the_lowest_free_slot_is_taken_first() -> None:
    ledger = SlotLedger(4)
    assert [ledger.take() for _ in range(3)] == [0, 1, 2]
    ledger.drop([1])
    assert ledger.take() == 1


def test_taking_from_a_full_ledger_raises_and_changes_nothing() -> None:
    ledger = SlotLedger(1)
    ledger.take()
    with pytest.raises(IndexError, match="all 1 KV slots"):
        ledger.take()
    ledger.check()


def test_a_run_of_text_must_fit() -> None:
    ledger = SlotLedger(3)
    with pytest.raises(IndexError, match="3 KV slots cannot hold 4"):
        ledger.take_run(4)
    assert ledger.take_run(3) == range(3)
    ledger.commit_run(3)
    assert (ledger.num_committed, ledger.num_free) == (3, 0)
    ledger.check()


def test_a_run_of_text_cannot_follow_a_draft() -> None:
    ledger = SlotLedger(4)
    ledger.take()
    with pytest.raises(ValueError, match="live"):
        ledger.take_run(1)


def test_only_a_run_of_live_slots_becomes_text() -> None:
    ledger = SlotLedger(4)
    ledger.take()
    with pytest.raises(ValueError, match="not all live"):
        ledger.commit_run(2)


@pytest.mark.parametrize("slot", [0, 2, 3])
def test_only_live_slots_leave(slot: int) -> None:
    ledger = SlotLedger(4)
    for _ in range(3):
        ledger.take()
    ledger.commit(0)
    ledger.drop([2])
    with pytest.raises(ValueError, match="not live"):
        ledger.drop([slot])
    with pytest.raises(ValueError, match="not live"):
        ledger.commit(slot)
    ledger.check()


@pytest.mark.parametrize(("capacity", "committed"), [(0, 0), (3, 4), (3, -1)])
def test_impossible_ledgers_are_refused(capacity: int, committed: int) -> None:
    with pytest.raises(ValueError, match="KV slots"):
        SlotLedger(capacity, num_committed=committed)


def test_a_chain_that_is_accepted_moves_nothing() -> None:
    ledger = SlotLedger(8, num_committed=3)
    chain = [ledger.take() for _ in range(4)]
    for slot in chain[:3]:
        assert ledger.commit(slot) is None
    ledger.drop(chain[3:])
    assert (ledger.num_committed, ledger.num_settled) == (6, 6)
    assert ledger.take_moves() == ()


def test_another_path_is_moved_once() -> None:
    ledger = SlotLedger(8, num_committed=3)
    slots = [ledger.take() for _ in range(4)]
    ledger.drop(slots[1:3])
    ledger.commit(slots[0])
    ledger.commit(slots[3])
    assert (ledger.num_committed, ledger.num_settled) == (5, 4)
    assert ledger.take_moves() == ((6, 4),)
    assert ledger.num_settled == 5
    assert ledger.take_moves() == ()


def test_what_lies_in_the_way_changes_places() -> None:
    ledger = SlotLedger(8)
    slots = [ledger.take() for _ in range(3)]
    assert ledger.commit(slots[2]) == 2
    assert ledger.live == 0b11
    assert set(ledger.take_moves()) == {(2, 0), (0, 2)}


def test_room_can_change_but_not_below_what_is_taken() -> None:
    ledger = SlotLedger(4, num_committed=2)
    for _ in range(2):
        ledger.take()
    ledger.drop([3])
    with pytest.raises(ValueError, match="2 KV slots cannot hold the 3"):
        ledger.resize(2)
    ledger.resize(3)
    assert (ledger.num_free, ledger.high_water) == (0, 3)
    ledger.resize(9)
    assert ledger.num_free == 6
    ledger.check()


def test_a_text_can_forget_its_end() -> None:
    ledger = SlotLedger(8, num_committed=3)
    slots = [ledger.take() for _ in range(3)]
    ledger.drop(slots[:1])
    ledger.commit(slots[2])
    with pytest.raises(ValueError, match="live"):
        ledger.forget_from(3)
    ledger.drop([slots[1]])
    ledger.forget_from(3)
    assert (ledger.num_committed, ledger.num_settled, ledger.take_moves()) == (3, 3, ())
    ledger.check()


class Shadow:
    """What should lie where: contents by slot, and a store that follows the moves."""

    def __init__(self) -> None:
        self.text: list[int] = []
        self.live: dict[int, int] = {}  # slot -> content
        self.stored: dict[int, int] = {}
        self.num_written = 0

    def write(self, slots: range | list[int], moves: tuple[Move, ...]) -> None:
        self.stored |= {target: self.stored[source] for source, target in moves}
        for slot in slots:
            self.num_written += 1
            self.live[slot] = self.stored[slot] = self.num_written


VERBS = st.tuples(
    st.sampled_from(("take", "run", "commit", "commit", "commit run", "drop", "forward")),
    st.integers(0, 7),
)


@given(st.integers(1, 40), st.lists(VERBS, max_size=80))
def test_books_and_contents_agree_under_any_sequence_of_calls(
    capacity: int, verbs: list[tuple[str, int]]
) -> None:
    ledger, shadow = SlotLedger(capacity), Shadow()
    for verb, number in verbs:
        live = sorted(shadow.live)
        if verb == "take" and ledger.num_free:
            slot = ledger.take()
            assert slot not in shadow.live
            shadow.write([slot], ledger.take_moves())
        elif verb == "run" and not live and number < ledger.num_free:
            shadow.write(ledger.take_run(number), ledger.take_moves())
        elif verb == "commit" and live:
            slot = live[number % len(live)]
            first, displaced_to = len(shadow.text), ledger.commit(slot)
            shadow.text.append(shadow.live.pop(slot))
            if displaced_to is not None:
                shadow.live[displaced_to] = shadow.live.pop(first)
        elif verb == "commit run" and live[:number] == [*range(len(shadow.text), number)]:
            ledger.commit_run(len(live[:number]))
            shadow.text += [shadow.live.pop(slot) for slot in live[:number]]
        elif verb == "drop":
            ledger.drop(live[::2])
            for slot in live[::2]:
                del shadow.live[slot]
        elif verb == "forward":
            shadow.write([], ledger.take_moves())
            assert ledger.num_settled == len(shadow.text)
            assert [shadow.stored[slot] for slot in range(len(shadow.text))] == shadow.text
            assert all(shadow.stored[slot] == each for slot, each in shadow.live.items())
        ledger.check()
        assert ledger.num_committed == len(shadow.text)
        assert ledger.live == ledger.seen(shadow.live)
        assert ledger.num_free == capacity - len(shadow.text) - len(shadow.live)
        settled = shadow.text[: ledger.num_settled]
        assert [shadow.stored[slot] for slot in range(len(settled))] == settled
