"""Random numbers made once for thousands of short texts, and read by both sides and all modes.

What a number is depends on seed, position, purpose and index alone (tests/sampling), so nothing
changes but the time: Philox for many seeds in one go, instead of hundreds of tensor operations for
each of them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache

import numpy as np
import pytest
import torch

from ssd.sampling import NoiseRows, Purpose, uniforms
from ssd.sampling.ratio_rule import RatioNumbers

_MASK, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)

NoiseOf = Callable[[int, int], NoiseRows]
"""By seed and vocabulary."""


def words_of_seeds(
    seeds: Sequence[int], positions: Sequence[int], *, num_values: int, purpose: Purpose
) -> torch.Tensor:
    """`ssd.sampling.random_words` of every seed: int64 `[seeds, positions, num_values]`."""
    shape = (len(seeds), len(positions), -(-num_values // 4))
    keys = np.array(seeds, dtype=np.uint64)[:, None, None]
    key_low, key_high = keys & _MASK, keys >> _SHIFT
    c0 = np.broadcast_to(np.arange(shape[2], dtype=np.uint64), shape)
    c1 = np.broadcast_to(np.array(positions, dtype=np.uint64)[:, None], shape)
    c2, c3 = np.full(shape, int(purpose), np.uint64), np.zeros(shape, np.uint64)
    for _ in range(10):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1 = (second >> _SHIFT) ^ c1 ^ key_low, second & _MASK
        c2, c3 = (first >> _SHIFT) ^ c3 ^ key_high, first & _MASK
        key_low, key_high = (key_low + _KEY_STEPS[0]) & _MASK, (key_high + _KEY_STEPS[1]) & _MASK
    lanes = np.stack((c0, c1, c2, c3), axis=-1).reshape(*shape[:2], -1)
    return torch.from_numpy(lanes[..., :num_values].astype(np.int64))


@contextmanager
def shared_noise(
    positions: range, *, seeds: Sequence[int] = (), vocab_size: int = 0
) -> Iterator[NoiseOf]:
    """Both machines take a seed's noise from here; that of `seeds` is made at once."""

    @cache
    def noise_of(seed: int, vocab_size: int) -> NoiseRows:
        noise = NoiseRows(seed, vocab_size)
        if seed in ready:
            _fill(noise, positions, ready.pop(seed))
        noise.prefetch(positions)
        return noise

    def made(seed: int, vocab_size: int, *, device: torch.device | None = None) -> NoiseRows:
        return noise_of(seed, vocab_size)

    words = words_of_seeds(seeds, positions, num_values=vocab_size, purpose=Purpose.COUPLED)
    rows = uniforms(words).log_().neg_().log_().neg_().float()
    ready = dict(zip(seeds, rows, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("verifier_service.machine.NoiseRows", made)
        patch.setattr("drafter_service.machine.NoiseRows", made)
        yield noise_of


def _fill(noise: NoiseRows, positions: Sequence[int], rows: torch.Tensor) -> None:
    slots = [position % noise.capacity for position in positions]
    noise._ring[slots] = rows
    for slot, position in zip(slots, positions, strict=True):
        noise._held[slot] = position


@contextmanager
def shared_numbers() -> Iterator[None]:
    """The same for rule `ratio`: a seed's numbers are made by whoever asks first, for texts of up
    to 32 tokens at once."""
    made = lru_cache(maxsize=2_000)(RatioNumbers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ssd.sampling.coins._BLOCK_LEN", 32)
        patch.setattr("ssd.sampling.ratio_rule.RatioNumbers", made)
        patch.setattr("drafter_service.machine.RatioNumbers", made)
        yield
