"""Gumbel noise of the coupled rule: one fixed number per seed, position and vocabulary id.

Verifier and drafter make the same rows from the seed alone, so noise never travels. The logarithms
are taken in float64 and rounded to float32: libraries differ in the last bit of a float64
logarithm, and after rounding they agree.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ssd.sampling.philox import Purpose, random_words, uniforms

NOISE_VERSION = 1
"""Raised with any change of the numbers: texts drawn under another version cannot be continued."""

_AHEAD_LEN = 2**15
"""Values made beyond those asked for: 32 rows of a small vocabulary, none of a large one."""

_BLOCK_LEN = 2**18
"""Values made at once: bounds the working memory of long requests, and costs no speed."""


def gumbel_rows(
    seed: int,
    positions: Sequence[int],
    *,
    vocab_size: int,
    device: torch.device | None = None,
) -> Tensor:
    """Standard Gumbel noise for the tokens drawn at `positions`: float32 `[num_positions, vocab]`.

    A value depends on seed, position and vocabulary id only. A larger vocabulary extends a row.
    """
    rows = torch.empty((len(positions), vocab_size), device=device)
    block_len = max(1, _BLOCK_LEN // vocab_size)
    for start in range(0, len(positions), block_len):
        block = slice(start, start + block_len)
        words = random_words(
            seed,
            positions[block],
            num_values=vocab_size,
            purpose=Purpose.COUPLED,
            device=device,
        )
        rows[block] = uniforms(words).log_().neg_().log_().neg_()
    return rows


class NoiseRows:
    """A session's noise, remembered for its most recent positions. Owned by one thread.

    Position t lives in ring slot `t % capacity`, so a window of `capacity` consecutive positions
    fits whatever the order of the calls. Memory never exceeds `capacity` rows.
    """

    def __init__(
        self,
        seed: int,
        vocab_size: int,
        capacity: int = 64,
        *,
        device: torch.device | None = None,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1 row, not {capacity}")
        self.seed = seed
        self.vocab_size = vocab_size
        self.capacity = capacity
        self._held: list[int | None] = [None] * capacity
        self._ring = torch.empty((capacity, vocab_size), device=device)

    def rows(self, positions: Sequence[int]) -> Tensor:
        """Noise for the tokens drawn at `positions`, which may repeat: float32 `[len, vocab]`."""
        slots = [position % self.capacity for position in positions]
        if [self._held[slot] for slot in slots] == list(positions):
            return self._ring[slots]
        # A text goes on: rows made together cost a fraction of rows made one by one.
        last = max(positions)
        num_ahead = min(self.capacity // 2, _AHEAD_LEN // self.vocab_size)
        self.prefetch([*positions, *range(last + 1, last + 1 + num_ahead)])
        if [self._held[slot] for slot in slots] != list(positions):
            # More distinct positions than the ring can hold at once; no tree is that deep.
            return self._make(positions)
        return self._ring[slots]

    def is_ready(self, position: int) -> bool:
        """Whether the row for this position is made."""
        return self._held[position % self.capacity] == position

    def prefetch(self, positions: Sequence[int]) -> None:
        """Make the missing rows in one batch, so that a later `rows` only copies."""
        missing = {
            position % self.capacity: position
            for position in positions
            if self._held[position % self.capacity] != position
        }
        if not missing:
            return
        self._ring[list(missing)] = self._make(list(missing.values()))
        for slot, position in missing.items():
            self._held[slot] = position

    def _make(self, positions: Sequence[int]) -> Tensor:
        return gumbel_rows(
            self.seed, positions, vocab_size=self.vocab_size, device=self._ring.device
        )
