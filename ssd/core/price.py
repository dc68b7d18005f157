"""One price decides how much to verify and how long to wait.

The price of a second is what the verifier earned lately, in tokens, over all sessions. A node is
worth verifying while the tokens it promises (its reach) exceed the price of one more row; waiting
for the drafter is worth it while a step promises more tokens than its time costs. With one session
the price is low and trees are wide; with many, rows cost more than they promise and speculation
shrinks to nothing by itself.
"""

from ssd.core.cost_model import CostModel

__all__ = ["CostModel", "Price"]

_FADE = 0.98  # per observation: about the last 50 rounds count
_SHORTEST_ROUND_S = 1e-6


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
