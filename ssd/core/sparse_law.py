"""The law that a drafter sampled from, as it travels: few ids and their weights, packed.

The weights are fp32 and need not add up to 1: the law is weight / sum of weights, in float64, on
both sides. So what is tested is the very law that was sampled from, whatever was rounded or cut off
before.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

_WORD = 4


@dataclass(frozen=True, slots=True)
class SparseLaw:
    """Little-endian columns of equal length: uint32 ids, likeliest first, and fp32 weights."""

    token_ids: bytes
    weights: bytes

    @classmethod
    def pack(cls, token_ids: Sequence[int], weights: Sequence[float]) -> Self:
        count = len(token_ids)
        return cls(struct.pack(f"<{count}I", *token_ids), struct.pack(f"<{count}f", *weights))

    @property
    def num_ids(self) -> int:
        return len(self.token_ids) // _WORD

    def unpacked(self) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """(token ids, weights); the columns must be whole."""
        count = self.num_ids
        return (
            struct.unpack(f"<{count}I", self.token_ids),
            struct.unpack(f"<{count}f", self.weights),
        )

    def makes_sense(self, *, vocab_size: int) -> bool:
        """Whether a peer's bytes are a law: whole columns, ids once each, positive weights."""
        is_whole = len(self.token_ids) == len(self.weights) == _WORD * self.num_ids
        if not is_whole or not self.token_ids:
            return False
        token_ids, weights = self.unpacked()
        return (
            max(token_ids) < vocab_size
            and len(set(token_ids)) == len(token_ids)
            and all(0.0 < weight < math.inf for weight in weights)
        )
