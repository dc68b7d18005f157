"""Exact laws of code that asks for coins: run it once for every way the coins may fall.

The law of the shipped code, not of a copy of it. (Inference by re-execution: each run follows a
script of answers and, where the script ends, takes the first and leaves the others to later runs.)
"""

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import TypeVar

import numpy as np

from ssd.sampling.coins import Weights

Result = TypeVar("Result", bound=Hashable)


class EveryCoin:
    """Follows a script, extends it, and keeps the probability of the run."""

    def __init__(self, script: list[int]) -> None:
        self.script = script
        self.probability = 1.0
        self.branches: list[list[int]] = []
        self._asked = 0

    def accept(self, probability: float) -> bool:
        return self._answer(np.array([1.0 - probability, probability])) == 1

    def choose(self, weights: Weights) -> int:
        return self._answer(weights / weights.sum())

    def _answer(self, probabilities: Weights) -> int:
        if self._asked == len(self.script):
            first, *others = np.flatnonzero(probabilities > 0.0).tolist()
            self.branches += [[*self.script, other] for other in others]
            self.script = [*self.script, first]
        answer = self.script[self._asked]
        self._asked += 1
        self.probability *= float(probabilities[answer])
        return answer


def law_of(program: Callable[[EveryCoin], Result]) -> dict[Result, float]:
    """The probability of each result of a program."""
    law: defaultdict[Result, float] = defaultdict(float)
    pending: list[list[int]] = [[]]
    while pending:
        coins = EveryCoin(pending.pop())
        law[program(coins)] += coins.probability
        pending += coins.branches
    return dict(law)
