"""Keys and values of every session, addressed by slot.

The core decides which row goes to which slot; a committed text may lie scattered over its session's
slots. Nothing is ever cleared: a slot that no row sees may hold anything finite.

    session -> layer -> keys   [kv_heads, capacity, head_dim]
                        values [kv_heads, capacity, value_dim]
            -> positions       [capacity]
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ssd.core.ids import SessionId


@dataclass(slots=True)
class LayerKv:
    """One layer's keys and values of one session."""

    keys: Tensor  # [kv_heads, capacity, head_dim]
    values: Tensor  # [kv_heads, capacity, value_dim]

    @property
    def num_bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes


class SessionKv:
    """The KV of one session; its layers come into being as the model's layers write."""

    def __init__(self, block_slots: int) -> None:
        self._block_slots = block_slots
        self._layers: list[LayerKv] = []
        self.positions: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    @property
    def capacity(self) -> int:
        return len(self.positions)

    @property
    def num_bytes(self) -> int:
        return sum(layer.num_bytes for layer in self._layers)

    def reserve(self, num_slots: int) -> None:
        """Make room for `num_slots` slots in whole blocks; layers follow when they next write."""
        if num_slots > self.capacity:
            num_new = _round_up(num_slots, self._block_slots) - self.capacity
            self.positions = np.concatenate([self.positions, np.zeros(num_new, dtype=np.int64)])

    def place(self, slots: Sequence[int], positions: Sequence[int]) -> None:
        """Note at which text position the row in each slot stands; slots must be reserved."""
        self.positions[list(slots)] = positions

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> LayerKv:
        """Store [kv_heads, rows, dim] keys and values in `slots`; layers arrive in order."""
        if layer == len(self._layers):
            self._layers.append(
                LayerKv(_room_for(keys, self.capacity), _room_for(values, self.capacity))
            )
        stored = self._layers[layer]
        if stored.keys.shape[1] < self.capacity:
            stored.keys = _grown(stored.keys, self.capacity)
            stored.values = _grown(stored.values, self.capacity)
        stored.keys.index_copy_(1, slots, keys)
        stored.values.index_copy_(1, slots, values)
        return stored


class KvStore:
    """The KV of all sessions of one runner."""

    def __init__(self, block_slots: int = 256) -> None:
        if block_slots < 1:
            raise ValueError(f"block_slots must be at least 1, not {block_slots}")
        self._block_slots = block_slots
        self._sessions: dict[SessionId, SessionKv] = {}

    @property
    def num_sessions(self) -> int:
        return len(self._sessions)

    @property
    def num_bytes(self) -> int:
        return sum(session.num_bytes for session in self._sessions.values())

    def open(self, session_id: SessionId, num_slots: int) -> SessionKv:
        """The session's KV, created or grown to hold `num_slots` slots."""
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = SessionKv(self._block_slots)
        session.reserve(num_slots)
        return session

    def release(self, session_id: SessionId) -> None:
        """Free the session's KV; unknown sessions are ignored."""
        self._sessions.pop(session_id, None)


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _room_for(rows: Tensor, capacity: int) -> Tensor:
    # Zeros, because attention adds -inf to the score of an unseen slot: -inf + nan would be nan.
    return rows.new_zeros(rows.shape[0], capacity, rows.shape[2])


def _grown(stored: Tensor, capacity: int) -> Tensor:
    larger = _room_for(stored, capacity)
    larger[:, : stored.shape[1]] = stored
    return larger
