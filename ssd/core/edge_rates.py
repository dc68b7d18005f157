"""How often a drafter's candidates turn out to be the target's token.

A drafter's own estimate of a candidate is right in order but not in size. The verifier sees the
truth at every node its walk passes, so it counts matches by sibling rank and by the estimate's
log-odds, and corrects estimates by what it counted. It sends the counts back, and the drafter ranks
its frontier with the same numbers.
"""

import math
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

NUM_RANKS = 8
NUM_BUCKETS = 13
PRIOR_TESTS = 20.0  # the drafter's own estimate counts as much as this many tests
MEMORY_TESTS = 2000.0  # older tests fade, so that a change of text is noticed
NUM_CELLS = NUM_RANKS * NUM_BUCKETS
_USUAL_FIRST_RATE = 0.8  # until counts say otherwise
_ENOUGH_TESTS = 40.0  # one that is right in a quarter of all looks so bad once in 200 times
_EDGES = [1 / (1 + math.exp(NUM_BUCKETS / 2 - edge)) for edge in range(1, NUM_BUCKETS)]
"""Estimates between two counters: those of log-odds -5.5, -4.5, ... 5.5."""


def cell_of(rank: int, estimate: float) -> int:
    """Index of the counter for a candidate: one per rank and unit of log-odds, clipped at +-6."""
    return min(rank, NUM_RANKS - 1) * NUM_BUCKETS + bisect(_EDGES, estimate)


def are_counts(values: Sequence[float]) -> bool:
    """Whether a peer's numbers can be counts: one for each cell, finite, none below zero."""
    return len(values) == NUM_CELLS and all(0.0 <= each < math.inf for each in values)


def _zeros() -> list[float]:
    return [0.0] * NUM_CELLS


@dataclass(slots=True)
class EdgeRates:
    """Counts of tests and matches; `weight` is the estimate they correct."""

    tests: list[float] = field(default_factory=_zeros)
    matches: list[float] = field(default_factory=_zeros)

    def weight(self, rank: int, estimate: float) -> float:
        """Probability that the target takes this candidate, in (0, 1)."""
        cell = cell_of(rank, estimate)
        believed = self.matches[cell] + PRIOR_TESTS * estimate
        return min(max(believed / (self.tests[cell] + PRIOR_TESTS), 1e-6), 1.0 - 1e-6)

    @property
    def first_rate(self) -> float:
        """How often the first candidate of a node was the target's token."""
        tests, matches = self._firsts
        return (matches + PRIOR_TESTS * _USUAL_FIRST_RATE) / (tests + PRIOR_TESTS)

    def is_rare(self, share: float) -> bool:
        """Whether first candidates have come true more rarely than this, after enough of them."""
        tests, matches = self._firsts
        return tests >= _ENOUGH_TESTS and matches < share * tests

    @property
    def _firsts(self) -> tuple[float, float]:
        """Tests and matches of first candidates."""
        return sum(self.tests[:NUM_BUCKETS]), sum(self.matches[:NUM_BUCKETS])

    def log_weights(self, estimates: Sequence[float]) -> list[float]:
        """The logarithm of each candidate's weight, by rank."""
        return [math.log(self.weight(rank, each)) for rank, each in enumerate(estimates)]

    def record(self, rank: int, estimate: float, *, is_match: bool) -> None:
        """Count one candidate of a node where the target's token is known."""
        cell = cell_of(rank, estimate)
        if self.tests[cell] >= MEMORY_TESTS:
            self.tests[cell] *= 0.5
            self.matches[cell] *= 0.5
        self.tests[cell] += 1.0
        self.matches[cell] += is_match
