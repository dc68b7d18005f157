"""The unit of work of a model: rows of tokens, packed flat over sessions.

The core decides which token runs in which KV slot and which slots it may see; a runner only
computes. A decode is one row, a prefill chunk a chain, a tree any set of rows whose `visible` sets
follow the tree's ancestry. Slots are numbered per text from 0, and the first `past_len` of them
hold the text in order, so what a row sees is that text and a few slots more:

    slot      0 1 2 ... past_len - 1 │ past_len ...
    seen by   every row              │ the rows whose `visible` has the bit
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ssd.core.ids import KvId, SlotSet
from ssd.core.slots import Move

Logits = TypeVar("Logits", covariant=True)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The rows that one text contributes to one forward.

    Row i runs `token_ids[i]` at text position `positions[i]`, stores its keys and values in
    `slots[i]`, and attends to the slots below `past_len`, where slot and position are the same, and
    to those of `visible[i]`, its own among them: bit b of it is slot `past_len + b`. `wanted` lists
    the rows whose logits are needed, ascending. `moves` are made before anything is stored. `held`
    is how many slots the worker's books hold for the text, 0 where there are none.
    """

    kv_id: KvId
    token_ids: tuple[int, ...]
    positions: tuple[int, ...]
    past_len: int
    slots: tuple[int, ...]
    visible: tuple[SlotSet, ...]
    wanted: tuple[int, ...]
    moves: tuple[Move, ...] = ()
    held: int = 0

    def __post_init__(self) -> None:
        sizes = {len(self.token_ids), len(self.positions), len(self.slots), len(self.visible)}
        if len(sizes) != 1 or not self.token_ids:
            raise ValueError(f"a row group needs equal, non-empty columns: {self}")

    @property
    def num_slots(self) -> int:
        """How many slots, counted from 0, this group touches or sees."""
        return self.past_len + max(visible.bit_length() for visible in self.visible)


Meanwhile = Callable[[], None]
"""What the host can do while a device computes; it may be called again, and does nothing then."""


def nothing_meanwhile() -> None:
    """Nothing waits."""


class Runner(Protocol[Logits]):
    """A model that runs rows. It owns KV tensors and nothing else."""

    def forward(
        self, groups: Sequence[RowGroup], *, meanwhile: Meanwhile = nothing_meanwhile
    ) -> Logits:
        """Run all groups in one forward; logits of the wanted rows, group by group.

        A text's KV comes into being with its first group, as large as what is held for it, and
        grows with its highest slot. `meanwhile` is called once the device has much to do: on a
        CPU, which is its own host, in the first layer, on a GPU when everything is queued.
        """
        ...

    def copy(self, source: KvId, target: KvId, num_slots: int, *, held: int = 0) -> None:
        """Begin a text, for which so many are held, with the first slots of another, which must be
        settled there."""
        ...

    def release(self, kv_id: KvId) -> None:
        """Free the text's KV; unknown ones are ignored."""
        ...
