"""Which KV slots of one session hold what.

Every slot is committed (its token is part of the text), live (its token belongs to a draft that may
still be taken or dropped) or free. Sets of slots are integers, so a union is `|`, and the attention
mask of a tree row is its parent's mask with one more bit. Nothing is ever moved: a live slot
becomes committed where it lies, and a dropped one is the next to be taken.
"""

from ssd.core.ids import SlotSet

NO_SLOTS = SlotSet(0)


def slot_set(*slots: int) -> SlotSet:
    """The set of the given slots."""
    bits = 0
    for slot in slots:
        bits |= 1 << slot
    return SlotSet(bits)


class SlotLedger:
    """Books of one session's slots; `check()` holds after every call."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a session needs at least one KV slot, not {capacity}")
        self.capacity = capacity
        self.committed = NO_SLOTS
        self.live = NO_SLOTS
        self.free = SlotSet((1 << capacity) - 1)

    @property
    def num_free(self) -> int:
        return self.free.bit_count()

    def take(self) -> int:
        """Make the lowest free slot live, so that used slots stay close together.

        Raises:
            IndexError: no slot is free.
        """
        if not self.free:
            raise IndexError(f"all {self.capacity} KV slots are taken")
        lowest = self.free & -self.free
        self.free = SlotSet(self.free ^ lowest)
        self.live = SlotSet(self.live | lowest)
        return lowest.bit_length() - 1

    def commit(self, slots: SlotSet) -> None:
        """Live slots become part of the committed text."""
        self._leave_live(slots)
        self.committed = SlotSet(self.committed | slots)

    def drop(self, slots: SlotSet) -> None:
        """Live slots become free."""
        self._leave_live(slots)
        self.free = SlotSet(self.free | slots)

    def check(self) -> None:
        """Every slot is in exactly one of the three sets."""
        sets = (self.committed, self.live, self.free)
        union = sets[0] | sets[1] | sets[2]
        counted = sum(each.bit_count() for each in sets)
        assert union == (1 << self.capacity) - 1, f"slots outside the books: {union:#x}"
        assert counted == self.capacity, f"{counted} slots booked, {self.capacity} exist"

    def _leave_live(self, slots: SlotSet) -> None:
        if slots & ~self.live:
            raise ValueError(f"slots {slots & ~self.live:#x} are not live")
        self.live = SlotSet(self.live ^ slots)
