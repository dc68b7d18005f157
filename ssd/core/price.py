"""One price decides how much to verify and how long to wait.

The price of a second is what the verifier earned lately, in tokens, over all sessions. A node is
worth verifying while the tokens it promises (its reach) exceed the price of one more row; waiting
for the drafter is worth it while a step promises more tokens than its time costs. With one session
the price is low and trees are wide; with many, rows cost more than they promise and speculation
shrinks to nothing by itself.
"""

from collections.abc import Sequence

_FADE = 0.98  # per observation: about the last 50 rounds count
_SHORTEST_ROUND_S = 1e-6  # what a fitted line says of one row may be zero
_WARM_UP_WEIGHT = 4.0  # a warm-up measurement counts as this many rounds and does not fade


class CostModel:
    """Seconds of a forward by number of rows: `fixed + per_row * rows`, fitted as rounds pass."""

    def __init__(self, warm_up: Sequence[tuple[int, float]]) -> None:
        """`warm_up`: (rows, seconds) of at least two forwards of different size."""
        if len({rows for rows, _ in warm_up}) < 2:
            raise ValueError(f"a cost model needs two sizes of forward, got {warm_up}")
        self._prior = _Sums()
        for rows, seconds in warm_up:
            self._prior.add(rows, seconds, weight=_WARM_UP_WEIGHT)
        self._recent = _Sums()

    def observe(self, rows: int, seconds: float) -> None:
        self._recent.fade()
        self._recent.add(rows, seconds, weight=1.0)

    @property
    def per_row_s(self) -> float:
        """Seconds that one more row adds; never negative."""
        total = self._prior.plus(self._recent)
        variance = total.weight * total.rows_squared - total.rows**2
        covariance = total.weight * total.product - total.rows * total.seconds
        return max(covariance / variance, 0.0)

    def forward_s(self, rows: int) -> float:
        """Expected seconds of a forward of `rows` rows."""
        total = self._prior.plus(self._recent)
        mean_rows, mean_s = total.rows / total.weight, total.seconds / total.weight
        return max(mean_s + self.per_row_s * (rows - mean_rows), _SHORTEST_ROUND_S)


class _Sums:
    """Weighted sums of a least-squares line."""

    __slots__ = ("product", "rows", "rows_squared", "seconds", "weight")

    def __init__(self) -> None:
        self.weight = self.rows = self.rows_squared = self.seconds = self.product = 0.0

    def add(self, rows: int, seconds: float, *, weight: float) -> None:
        self.weight += weight
        self.rows += weight * rows
        self.rows_squared += weight * rows * rows
        self.seconds += weight * seconds
        self.product += weight * rows * seconds

    def fade(self) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) * _FADE)

    def plus(self, other: "_Sums") -> "_Sums":
        total = _Sums()
        for name in self.__slots__:
            setattr(total, name, getattr(self, name) + getattr(other, name))
        return total


class Price:
    """Tokens per second earned lately: the moving ratio of tokens to seconds of rounds."""

    def __init__(self, *, plain_round_s: float) -> None:
        """Before the first round the price is that of plain decoding: one token per round."""
        self._tokens = 1.0
        self._seconds = max(plain_round_s, _SHORTEST_ROUND_S)

    def observe(self, tokens: int, seconds: float) -> None:
        self._tokens = self._tokens * _FADE + tokens
        self._seconds = self._seconds * _FADE + seconds

    @property
    def tokens_per_s(self) -> float:
        return self._tokens / self._seconds
