"""Philox4x32-10 on tensors: random words as a pure function of seed, position and index.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The generator is a keyed
bijection of a counter, so a word depends on nothing but its own address:

    key      (seed low word, seed high word)
    counter  (index >> 2, position, purpose, 0)        four words per counter
    lane     index & 3

Words are int64 tensors holding 32 unsigned bits. A product of two such words wraps in int64, and
its bits are still those of the unsigned product: `>> 32` and a mask give the high word.
"""

from collections.abc import Sequence
from enum import IntEnum

import torch
from torch import Tensor

from ssd.core.sampling_params import MAX_SEED

_WORD_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_NUM_ROUNDS = 10
_NUM_LANES = 4

Words = tuple[Tensor, Tensor, Tensor, Tensor]


class Purpose(IntEnum):
    """What a random word decides; words of different purposes are independent."""

    COUPLED = 1
    ACCEPT = 2
    RESIDUAL = 3
    DRAFT = 4
    DERIVE = 5


def philox4x32(counter: Words, seed: int) -> Words:
    """Encrypt counters that broadcast against each other; the seed is the 64-bit key.

    A dimension that a counter word lacks stays away until the rounds mix it in, which makes the
    first two of ten rounds almost free.
    """
    key_low, key_high = _split(seed)
    c0, c1, c2, c3 = counter
    for _ in range(_NUM_ROUNDS):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        # c1 and c3 keep their upper bits: only a factor of the next product has to be clean.
        c0, c1 = _mix(second, c1, key_low), second
        c2, c3 = _mix(first, c3, key_high), first
        key_low = (key_low + _KEY_STEPS[0]) & _WORD_MASK
        key_high = (key_high + _KEY_STEPS[1]) & _WORD_MASK
    return c0, c1 & _WORD_MASK, c2, c3 & _WORD_MASK


def random_words(
    seed: int,
    positions: Sequence[int],
    *,
    num_values: int,
    purpose: Purpose,
    device: torch.device | None = None,
) -> Tensor:
    """Words 0 to `num_values - 1` of every position: int64 `[num_positions, num_values]`."""
    if positions and not 0 <= min(positions) <= max(positions) <= _WORD_MASK:
        raise ValueError(f"positions must be unsigned 32-bit integers, not {list(positions)}")
    num_counters = -(-num_values // _NUM_LANES)
    counter = (
        torch.arange(num_counters, device=device).unsqueeze(0),
        torch.tensor(positions, dtype=torch.int64, device=device).unsqueeze(1),
        torch.full((1, 1), int(purpose), device=device),
        torch.zeros((1, 1), dtype=torch.int64, device=device),
    )
    lanes = torch.stack(philox4x32(counter, seed), dim=-1)
    return lanes.flatten(start_dim=1)[:, :num_values]


def uniforms(words: Tensor) -> Tensor:
    """Map words into the open interval (0, 1), exactly, in float64."""
    return words.double().add_(0.5).mul_(2.0**-32)


def derive_seed(seed: int, choice: int) -> int:
    """The seed of the `choice`-th answer to one request; the first answer keeps the seed itself."""
    if choice == 0:
        return seed
    if not 0 < choice <= _WORD_MASK:
        raise ValueError(f"choice must be an unsigned 32-bit integer, not {choice}")
    counter = tuple(torch.tensor(word) for word in (choice, 0, int(Purpose.DERIVE), 0))
    low, high, _, _ = philox4x32((counter[0], counter[1], counter[2], counter[3]), seed)
    return int(low) | int(high) << 32


def _split(seed: int) -> tuple[int, int]:
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed must be an unsigned 64-bit integer, not {seed}")
    return seed & _WORD_MASK, seed >> 32


def _mix(product: Tensor, word: Tensor, key: int) -> Tensor:
    """The high half of the product, xor-ed with a word and the round's key."""
    return ((product >> 32) ^ word).bitwise_xor_(key).bitwise_and_(_WORD_MASK)
