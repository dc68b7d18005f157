"""Which KV slots of one session hold what.

    slot    0 1 2 3 4 5 │ 6 7 8 9 ...        num_committed = 6
            the text    │ live and free

Slot i below `num_committed` holds token i of the text. Above it every slot is live (its token
belongs to a draft that may still be taken or dropped) or free. Sets of slots are small integers
whose bit 0 is slot `num_committed`, so that every operation costs what the live tree costs, however
long the text.

A live slot becomes committed by being the next of the text. The best chain of a draft is laid out
so that it lies there already; anything else is moved once, by the runner, before the session's next
rows run (`take_moves`).
"""

from collections.abc import Iterable

from ssd.core.ids import SlotSet

NO_SLOTS = SlotSet(0)

Move = tuple[int, int]
"""(from, to): the KV of one slot goes to another. All moves of a list happen at once."""


class SlotLedger:
    """Books of one session's slots; `check()` holds after every call."""

    def __init__(self, capacity: int, *, num_committed: int = 0) -> None:
        if not 0 <= num_committed <= capacity or capacity < 1:
            raise ValueError(f"{num_committed} committed of {capacity} KV slots")
        self.capacity = capacity
        self.num_committed = num_committed
        self.live = NO_SLOTS
        self.num_settled = num_committed
        """Slots of the text that hold their own KV, no move pending."""
        self.high_water = num_committed
        """No slot from here on was ever used."""
        self._moved: dict[int, int] = {}  # slot -> the slot where its KV still lies

    @property
    def num_live(self) -> int:
        return self.live.bit_count()

    @property
    def num_free(self) -> int:
        return self.capacity - self.num_committed - self.num_live

    def resize(self, capacity: int) -> None:
        """Change how many slots there are; what is taken must fit.

        Raises:
            ValueError: it does not.
        """
        num_used = self.num_committed + self.live.bit_length()
        if capacity < num_used:
            raise ValueError(f"{capacity} KV slots cannot hold the {num_used} that are taken")
        self.capacity = capacity
        self.high_water = min(self.high_water, capacity)

    def take(self) -> int:
        """Make the lowest free slot live, so that used slots stay close together.

        Raises:
            IndexError: no slot is free.
        """
        offset = (~self.live & (self.live + 1)).bit_length() - 1  # the lowest bit that is not set
        slot = self.num_committed + offset
        if slot >= self.capacity:
            raise IndexError(f"all {self.capacity} KV slots are taken")
        self.live = SlotSet(self.live | 1 << offset)
        self.high_water = max(self.high_water, slot + 1)
        return slot

    def take_run(self, length: int) -> range:
        """Make the next slots of the text live, in a row; no other slot may be live.

        Raises:
            IndexError: so many are not free.
        """
        if self.live:
            raise ValueError("a run of text cannot follow live slots")
        slots = range(self.num_committed, self.num_committed + length)
        if slots.stop > self.capacity:
            raise IndexError(f"{self.capacity} KV slots cannot hold {slots.stop}")
        self.live = SlotSet((1 << length) - 1)
        self.high_water = max(self.high_water, slots.stop)
        return slots

    def commit_run(self, length: int) -> None:
        """The first `length` live slots, in a row, become text where they lie."""
        run = (1 << length) - 1
        if self.live & run != run:
            raise ValueError(f"the next {length} slots are not all live")
        self._pass(length)

    def commit(self, slot: int) -> int | None:
        """A live slot becomes the next of the text; where what was live there went, if anything.

        Of two live slots that change places, the second is told to its owner by the return value.
        """
        self._check_live(slot)
        first = self.num_committed
        displaced = None
        if slot != first:
            displaced = slot if self.live & 1 else None
            self._exchange(slot, first)
        self._pass(1)
        return displaced

    def drop(self, slots: Iterable[int]) -> None:
        """Live slots become free."""
        for slot in slots:
            self._check_live(slot)
            self.live = SlotSet(self.live ^ 1 << slot - self.num_committed)
            self._moved.pop(slot, None)

    def take_moves(self) -> tuple[Move, ...]:
        """What the runner must move before it runs more rows of this session; settles the text."""
        moves = tuple((source, slot) for slot, source in self._moved.items())
        self._moved.clear()
        self.num_settled = self.num_committed
        return moves

    def forget_from(self, slot: int) -> None:
        """The text's KV from `slot` on is not to be trusted; nothing may be live."""
        if self.live:
            raise ValueError("a text cannot become shorter below live slots")
        self._moved.clear()
        self.num_committed = min(self.num_committed, slot)
        self.num_settled = min(self.num_settled, slot)

    def seen(self, slots: Iterable[int]) -> SlotSet:
        """A row's `visible` set: live slots, beside all of the text."""
        bits = 0
        for slot in slots:
            bits |= 1 << slot - self.num_committed
        return SlotSet(bits)

    def check(self) -> None:
        """Every slot is committed, live or free, and moves end where something is kept."""
        used = self.num_committed + self.live.bit_length()
        assert used <= self.high_water <= self.capacity, f"{used} of {self.capacity} slots used"
        assert self.num_free >= 0
        assert self.num_settled <= self.num_committed
        for slot in self._moved:
            is_live = slot >= self.num_committed and self.live >> slot - self.num_committed & 1
            assert is_live or self.num_settled <= slot < self.num_committed, f"slot {slot} moved"
        assert len(set(self._moved.values())) == len(self._moved), "a slot moves to two places"

    def _check_live(self, slot: int) -> None:
        offset = slot - self.num_committed
        if offset < 0 or not self.live >> offset & 1:
            raise ValueError(f"slot {slot} is not live")

    def _pass(self, length: int) -> None:
        """The text takes the next slots."""
        is_settled = self.num_settled == self.num_committed and not self._moved
        self.num_committed += length
        self.live = SlotSet(self.live >> length)
        if is_settled:
            self.num_settled = self.num_committed

    def _exchange(self, slot: int, first: int) -> None:
        """The KV of live `slot` shall lie at `first`, and what is live there at `slot`."""
        source, displaced = self._moved.pop(slot, slot), self._moved.pop(first, first)
        if source != first:
            self._moved[first] = source
        if self.live & 1:
            if displaced != slot:
                self._moved[slot] = displaced
        else:
            self.live = SlotSet(self.live ^ 1 << slot - first | 1)
