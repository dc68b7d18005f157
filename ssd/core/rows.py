"""The unit of work of a model: rows of tokens, packed flat over sessions.

The core decides which token runs in which KV slot and which slots it may see; a runner only
computes. A decode is one row, a prefill chunk a chain, a tree any set of rows whose `visible` sets
follow the tree's ancestry. Slots are numbered per session from 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ssd.core.ids import SessionId, SlotSet

Logits = TypeVar("Logits", covariant=True)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The rows that one session contributes to one forward.

    Row i runs `token_ids[i]` at text position `positions[i]`, stores its keys and values in
    `slots[i]`, and attends to the slots in `visible[i]`, its own among them. `wanted` lists the
    rows whose logits are needed, ascending.
    """

    session_id: SessionId
    token_ids: tuple[int, ...]
    positions: tuple[int, ...]
    slots: tuple[int, ...]
    visible: tuple[SlotSet, ...]
    wanted: tuple[int, ...]

    def __post_init__(self) -> None:
        sizes = {len(self.token_ids), len(self.positions), len(self.slots), len(self.visible)}
        if len(sizes) != 1 or not self.token_ids:
            raise ValueError(f"a row group needs equal, non-empty columns: {self}")

    @property
    def num_slots(self) -> int:
        """How many slots, counted from 0, this group touches or sees."""
        return max(visible.bit_length() for visible in self.visible)


class Runner(Protocol[Logits]):
    """A model that runs rows. It owns KV tensors and nothing else."""

    def forward(self, groups: Sequence[RowGroup]) -> Logits:
        """Run all groups in one forward; logits of the wanted rows, group by group.

        A session's KV comes into being with its first group and grows with its highest slot.
        """
        ...

    def release(self, session_id: SessionId) -> None:
        """Free the session's KV; unknown sessions are ignored."""
        ...
