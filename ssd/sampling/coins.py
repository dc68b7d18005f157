"""Chance, as the rule `ratio` asks for it: yes or no with a probability, one of several by weight.

The rule asks for nothing else, so a test can answer in every possible way and add the probabilities
up: the law of the shipped code, not of a copy of it.
"""

from itertools import count
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ssd.sampling.philox import Purpose, random_words

Weights = NDArray[np.float64]

_BLOCK_LEN = 64  # positions made at once: a text asks for one after the other
_BLOCKS_KEPT = 4


class Coins(Protocol):
    """Independent answers."""

    def accept(self, probability: float) -> bool:
        """True with this probability."""
        ...

    def choose(self, weights: Weights) -> int:
        """An index, with probability weight / sum of the weights."""
        ...


class Uniforms:
    """Numbers in the open interval (0, 1) by position, as a function of seed and purpose.

    52 bits each: no two of them are further apart than a float64 just below 1 can tell.
    """

    def __init__(self, seed: int, purpose: Purpose, *, num_draws: int) -> None:
        self._seed = seed
        self._purpose = purpose
        self._num_draws = num_draws
        self._blocks: dict[int, list[list[float]]] = {}

    def at(self, position: int) -> list[float]:
        """The numbers of one position, in the order in which they are used."""
        index = position // _BLOCK_LEN
        block = self._blocks.get(index)
        if block is None:
            if len(self._blocks) >= _BLOCKS_KEPT:
                del self._blocks[next(iter(self._blocks))]
            block = self._blocks[index] = self._make(index * _BLOCK_LEN)
        return block[position % _BLOCK_LEN]

    def _make(self, first: int) -> list[list[float]]:
        words = random_words(
            self._seed,
            range(first, first + _BLOCK_LEN),
            num_values=2 * self._num_draws,
            purpose=self._purpose,
        )
        mantissas = words[:, 0::2] << 20 | words[:, 1::2] >> 12
        uniform: list[list[float]] = mantissas.double().add_(0.5).mul_(2.0**-52).tolist()
        return uniform


class SeededCoins:
    """The coins of one position: yes or no from one row of numbers, choices from another."""

    def __init__(self, accept: list[float], choose: list[float]) -> None:
        self._accept = accept
        self._choose = choose
        self._accepted, self._chosen = count(), count()

    def accept(self, probability: float) -> bool:
        return self._accept[next(self._accepted)] < probability

    def choose(self, weights: Weights) -> int:
        return pick(weights, self._choose[next(self._chosen)])


def pick(weights: Weights, uniform: float) -> int:
    """The index whose share of the total the number falls into; never one of weight 0."""
    cumulative = weights.cumsum()
    index = int(cumulative.searchsorted(uniform * cumulative[-1], side="right"))
    return index if index < len(weights) else int(weights.nonzero()[0][-1])
