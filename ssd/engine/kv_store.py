"""Keys and values of every text, addressed by slot.

The core decides which row goes to which slot: a text's own, in order, then those of its drafts.
Nothing is ever cleared: a slot that no row sees may hold anything finite.

    text -> planes     [kv_heads, capacity, dim], two a layer: keys, then values
         -> stacks     [planes of one shape, kv_heads, capacity, dim], so that all are moved at once
         -> positions  [capacity]
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ssd.core.ids import KvId
from ssd.core.slots import Move
from ssd.engine.kv_buffer import kv_buffer, takes_pages_on_demand

SlotIndex = slice | Tensor
"""Slots in a row, or any, [rows]."""


@dataclass(frozen=True, slots=True)
class LayerKv:
    """One layer's keys and values of one text."""

    keys: Tensor  # [kv_heads, capacity, head_dim]
    values: Tensor  # [kv_heads, capacity, value_dim]


@dataclass(frozen=True, slots=True)
class PlaneShape:
    """What a plane holds per slot, and where."""

    num_heads: int
    dim: int
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, rows: Tensor) -> "PlaneShape":
        return cls(rows.shape[0], rows.shape[2], rows.dtype, rows.device)

    @property
    def slot_bytes(self) -> int:
        return self.num_heads * self.dim * self.dtype.itemsize


class SessionKv:
    """The KV of one text. Of a model seen for the first time, planes come as its layers write."""

    def __init__(self, block_slots: int, shapes: Sequence[PlaneShape] = ()) -> None:
        self._block_slots = block_slots
        self._shapes = list(shapes)
        self._stack_of = list(_stack_indices(shapes))
        self._stacks: list[Tensor] = []
        self._layers: list[LayerKv] = []
        self._num_used = 0
        self.positions: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    @property
    def shapes(self) -> tuple[PlaneShape, ...]:
        return tuple(self._shapes)

    @property
    def capacity(self) -> int:
        return len(self.positions)

    @property
    def num_bytes(self) -> int:
        """What it takes of the memory: where unused room is free, the slots that were used."""
        slot_bytes = sum(shape.slot_bytes for shape in self._shapes)
        return slot_bytes * (self._num_used if self._is_on_demand else self.capacity)

    @property
    def _is_on_demand(self) -> bool:
        return all(takes_pages_on_demand(shape.device) for shape in self._shapes)

    def reserve(self, num_slots: int, *, held: int = 0) -> None:
        """Make room for `num_slots` slots in whole blocks, at first for all that are held.

        Later, where unused room is free, for twice as many as before: a text that grows is copied
        seldom.
        """
        if num_slots <= self.capacity:
            return
        if self.capacity == 0:
            num_slots = max(num_slots, held)
        elif self._is_on_demand:
            num_slots = max(num_slots, 2 * self.capacity)
        capacity = _round_up(num_slots, self._block_slots)
        positions = np.zeros(capacity, dtype=np.int64)
        positions[: self.capacity] = self.positions
        self.positions = positions
        self._make_stacks()

    def place(self, slots: Sequence[int], positions: Sequence[int]) -> None:
        """Note at which text position the row in each slot stands; slots must be reserved."""
        self.positions[list(slots)] = positions
        self._num_used = max(self._num_used, max(slots) + 1)

    def move(self, moves: Sequence[Move]) -> None:
        """Give slots the KV of others, all at once."""
        if not moves:
            return
        sources, targets = zip(*moves, strict=True)
        self.positions[list(targets)] = self.positions[list(sources)]
        for stack in self._stacks:
            index = torch.tensor(moves, device=stack.device)  # [moves, 2]
            stack.index_copy_(2, index[:, 1], stack.index_select(2, index[:, 0]))

    def write(self, layer: int, slots: SlotIndex, keys: Tensor, values: Tensor) -> LayerKv:
        """Store [kv_heads, rows, dim] keys and values in `slots`; layers arrive in order."""
        if layer == len(self._layers):
            self._shapes += (PlaneShape.of(keys), PlaneShape.of(values))
            self._stack_of += (len(self._stacks), len(self._stacks) + 1)
            self._make_stacks()
        stored = self._layers[layer]
        if isinstance(slots, slice):
            stored.keys[:, slots] = keys
            stored.values[:, slots] = values
        else:
            stored.keys.index_copy_(1, slots, keys)
            stored.values.index_copy_(1, slots, values)
        return stored

    def begin_with(self, source: "SessionKv", num_slots: int) -> None:
        """Take over the first slots, which are reserved, of another text's KV of the same model."""
        self.place(range(num_slots), range(num_slots))
        for plane, other in zip(self._planes(), source._planes(), strict=True):
            plane[:, :num_slots] = other[:, :num_slots]

    def _make_stacks(self) -> None:
        """Allocate what the capacity and the shapes ask for; what was written stays."""
        old = self._stacks
        stacks = []
        for index in range(len(set(self._stack_of))):
            members = [each for each, stack in enumerate(self._stack_of) if stack == index]
            shape = self._shapes[members[0]]
            size = (len(members), shape.num_heads, self.capacity, shape.dim)
            if index < len(old) and old[index].shape == size:
                stacks.append(old[index])
                continue
            stack = kv_buffer(size, dtype=shape.dtype, device=shape.device)
            if index < len(old):
                stack[:, :, : self._num_used] = old[index][:, :, : self._num_used]
            stacks.append(stack)
        self._stacks = stacks
        planes = self._planes()
        pairs = zip(planes[::2], planes[1::2], strict=True)
        self._layers = [LayerKv(keys, values) for keys, values in pairs]

    def _planes(self) -> list[Tensor]:
        """[kv_heads, capacity, dim] each, in order."""
        rows = [iter(stack) for stack in self._stacks]
        return [next(rows[index]) for index in self._stack_of]


class KvStore:
    """The KV of all texts of one runner."""

    def __init__(self, block_slots: int = 64) -> None:
        if block_slots < 1:
            raise ValueError(f"block_slots must be at least 1, not {block_slots}")
        self._block_slots = block_slots
        self._shapes: tuple[PlaneShape, ...] = ()
        self._texts: dict[KvId, SessionKv] = {}

    @property
    def num_sessions(self) -> int:
        return len(self._texts)

    @property
    def num_bytes(self) -> int:
        return sum(text.num_bytes for text in self._texts.values())

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot over all layers; 0 before the first forward."""
        return sum(shape.slot_bytes for shape in self._known_shapes())

    def open(self, kv_id: KvId, num_slots: int, *, held: int = 0) -> SessionKv:
        """The text's KV, created for the slots that are held or grown to have `num_slots`."""
        text = self._texts.get(kv_id)
        if text is None:
            text = self._texts[kv_id] = SessionKv(self._block_slots, self._known_shapes())
        text.reserve(num_slots, held=held)
        return text

    def copy(self, source: KvId, target: KvId, num_slots: int, *, held: int = 0) -> None:
        """Begin a text with the first slots of another."""
        self.open(target, num_slots, held=held).begin_with(self._texts[source], num_slots)

    def release(self, kv_id: KvId) -> None:
        """Free the text's KV; unknown ones are ignored."""
        self._known_shapes()
        self._texts.pop(kv_id, None)

    def _known_shapes(self) -> tuple[PlaneShape, ...]:
        """The model's planes, learnt from the first text that ran through all its layers."""
        if not self._shapes:
            self._shapes = next((text.shapes for text in self._texts.values()), ())
        return self._shapes


def _stack_indices(shapes: Sequence[PlaneShape]) -> list[int]:
    """Which stack each plane belongs to: one for each shape, in order of appearance."""
    order: dict[PlaneShape, int] = {}
    return [order.setdefault(shape, len(order)) for shape in shapes]


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
