"""What a forward costs, learnt from the forwards that ran.

    seconds = fixed + per_row * rows + per_row_above * max(rows - knee, 0)
            + per_pair * pairs + per_expert * experts

`rows` are tokens: up to some number of them a forward is bound by reading its weights, which costs
the same for one row, and from this `knee` on by arithmetic. `pairs` are the row-and-slot pairs that
attention goes over, which is how the length of texts comes in, and `experts` the experts of a
mixture that so many rows are expected to touch: for a dense model none. The coefficients are a
least-squares fit of the warm-up, which does not fade, and of the last rounds; none is negative,
because no work costs less than nothing. The knee is where the warm-up is fitted best.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ssd.core.rows import RowGroup

_FADE = 0.98  # per observation: about the last 50 rounds count
_SHORTEST_S = 1e-6  # what a fitted line says of one row may be zero
_WARM_UP_WEIGHT = 4.0  # a warm-up measurement counts as this many rounds and does not fade
_FIT_EVERY = 8  # observations; a fit takes as long as planning a tree, and moves little
_SINGULAR = 1e-9  # a pivot this small, relative to its column, says that nothing tells two apart


@dataclass(frozen=True, slots=True)
class ForwardSize:
    """The work of one forward: its rows, and over all rows how many KV slots each sees."""

    rows: int
    pairs: int = 0

    @classmethod
    def of(cls, groups: Iterable[RowGroup]) -> "ForwardSize":
        sizes = [(len(group.token_ids), group.num_slots) for group in groups]
        return cls(sum(rows for rows, _ in sizes), sum(rows * slots for rows, slots in sizes))


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture's experts in one layer; every row goes through `per_row` of `count`."""

    count: int
    per_row: int

    def touched(self, rows: float) -> float:
        """How many are expected to run when rows choose theirs independently."""
        share_missed: float = (1.0 - self.per_row / self.count) ** rows
        return self.count * (1.0 - share_missed)


class CostModel:
    """Expected seconds of a forward; `observe` keeps it current."""

    def __init__(
        self,
        warm_up: Sequence[tuple[int | ForwardSize, float]],
        *,
        experts: Experts | None = None,
    ) -> None:
        """`warm_up`: (rows or size, seconds) of at least two forwards of different rows."""
        self._experts = experts
        measured = [(_size(size), seconds) for size, seconds in warm_up]
        if len({size.rows for size, _ in measured}) < 2:
            raise ValueError(f"a cost model needs two sizes of forward, got {warm_up}")
        self.knee = math.inf
        """Rows beyond which each costs more than those before; infinite where none fits better."""
        self._num_unfitted = 0
        self._fit_to(measured)
        best = self.knee, self._error(measured)
        for knee in sorted({size.rows for size, _ in measured})[1:-1]:
            self.knee = float(knee)
            self._fit_to(measured)
            best = min(best, (self.knee, self._error(measured)), key=lambda each: each[1])
        self.knee = best[0]
        self._fit_to(measured)

    def observe(self, size: int | ForwardSize, seconds: float) -> None:
        self._recent.fade()
        self._recent.add(self._features(_size(size)), seconds, weight=1.0)
        self._num_unfitted += 1
        if self._num_unfitted == _FIT_EVERY:
            self._coefficients = self._fitted()
            self._num_unfitted = 0

    @property
    def per_row_s(self) -> float:
        """Seconds that one more row adds to a forward of one, over a short text."""
        return self.row_s(ForwardSize(1), length=0)

    @property
    def above_knee_s(self) -> float:
        """Seconds by which a row above the knee is dearer than one below."""
        return self._coefficients[2]

    def row_s(self, size: int | ForwardSize, *, length: int) -> float:
        """Seconds that one more row over `length` slots adds to a forward; never negative."""
        size = _size(size)
        more = ForwardSize(size.rows + 1, size.pairs + length)
        return self._seconds(more) - self._seconds(size)

    def forward_s(self, size: int | ForwardSize) -> float:
        """Expected seconds of a forward."""
        return max(self._seconds(_size(size)), _SHORTEST_S)

    def _fit_to(self, measured: Sequence[tuple[ForwardSize, float]]) -> None:
        self._prior, self._recent = _Moments(), _Moments()
        for size, seconds in measured:
            self._prior.add(self._features(size), seconds, weight=_WARM_UP_WEIGHT)
        self._coefficients = self._fitted()

    def _error(self, measured: Sequence[tuple[ForwardSize, float]]) -> float:
        return sum((self._seconds(size) - seconds) ** 2 for size, seconds in measured)

    def _seconds(self, size: ForwardSize) -> float:
        return _dot(self._coefficients, self._features(size))

    def _features(self, size: ForwardSize) -> tuple[float, ...]:
        touched = 0.0 if self._experts is None else self._experts.touched(size.rows)
        above = max(size.rows - self.knee, 0.0)
        return 1.0, float(size.rows), above, size.pairs / 1000.0, touched

    def _fitted(self) -> tuple[float, ...]:
        """Least squares; a negative coefficient is taken for zero and the others fitted again."""
        total = self._prior.plus(self._recent)
        used = list(range(len(total.products)))
        while True:
            solution = _solve(total, used)
            slopes = [index for index in used if index > 0]
            worst = min(slopes, key=lambda index: solution[index], default=0)
            if worst == 0 or solution[worst] >= 0.0:
                return tuple(solution)
            used.remove(worst)


class _Moments:
    """Weighted sums of products of features, and of features with seconds."""

    __slots__ = ("products", "with_seconds")

    def __init__(self, num_features: int = 5) -> None:
        self.products = [[0.0] * num_features for _ in range(num_features)]
        self.with_seconds = [0.0] * num_features

    def add(self, features: Sequence[float], seconds: float, *, weight: float) -> None:
        for row, one in enumerate(features):
            self.with_seconds[row] += weight * one * seconds
            for column, other in enumerate(features):
                self.products[row][column] += weight * one * other

    def fade(self) -> None:
        self.with_seconds = [_FADE * each for each in self.with_seconds]
        self.products = [[_FADE * each for each in row] for row in self.products]

    def plus(self, other: "_Moments") -> "_Moments":
        total = _Moments(len(self.with_seconds))
        total.with_seconds = _sum(self.with_seconds, other.with_seconds)
        pairs = zip(self.products, other.products, strict=True)
        total.products = [_sum(one, two) for one, two in pairs]
        return total


def _size(size: int | ForwardSize) -> ForwardSize:
    return ForwardSize(size) if isinstance(size, int) else size


def _solve(moments: _Moments, used: Sequence[int]) -> list[float]:
    """Gauss-Jordan over the features in use; what they cannot tell apart goes to the first."""
    rows = {
        row: [moments.products[row][column] for column in used] + [moments.with_seconds[row]]
        for row in used
    }
    solved: list[int] = []
    for position, feature in enumerate(used):
        if rows[feature][position] <= _SINGULAR * moments.products[feature][feature]:
            continue
        pivot = [each / rows[feature][position] for each in rows[feature]]
        for other in used:
            factor = rows[other][position]
            rows[other] = [
                each - factor * mine for each, mine in zip(rows[other], pivot, strict=True)
            ]
        rows[feature] = pivot
        solved.append(feature)
    solution = [0.0] * len(moments.with_seconds)
    for feature in solved:
        solution[feature] = rows[feature][-1]
    return solution


def _sum(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
