"""Which cost ratio of draft to target a benchmark runs at.

From the embedded pairs, whose models are small, width padding (`ssd.engine.padding`) makes a pair
of the wanted ratio that says the same words.
"""

from dataclasses import dataclass
from enum import StrEnum


class Regime(StrEnum):
    """`paper`: the published 70B and 1B; `light`: a draft that costs next to nothing; `plain`: the
    pair as it is."""

    PAPER = "paper"
    LIGHT = "light"
    PLAIN = "plain"

    @property
    def goal(self) -> "Goal | None":
        """What padding aims at; None where nothing is padded."""
        return _GOALS.get(self)


@dataclass(frozen=True, slots=True)
class Goal:
    """A verification of `ROWS` rows takes `verify_ms`, a draft step of one row `ratio` of that.

    22.5 ms is the middle of the 15 to 30 that a padded regime stands for.
    """

    ratio: float
    verify_ms: float = 22.5
    tolerance: float = 0.01


ROWS = 6
_GOALS = {Regime.PAPER: Goal(0.13), Regime.LIGHT: Goal(0.04)}


@dataclass(frozen=True, slots=True)
class Widths:
    """Neurons of each MLP, of the target and of the draft, once padded."""

    target: int
    draft: int

    @staticmethod
    def parse(text: str) -> "Widths":
        """From `TARGET,DRAFT`.

        Raises:
            ValueError: it reads otherwise.
        """
        target, draft = (int(each) for each in text.split(","))
        return Widths(target, draft)

    def __str__(self) -> str:
        return f"{self.target},{self.draft}"


@dataclass(frozen=True, slots=True)
class Cost:
    """What the pair was measured to cost, one model at a time, before the service started."""

    verify_ms: float
    draft_step_ms: float

    @property
    def ratio(self) -> float:
        return self.draft_step_ms / self.verify_ms
