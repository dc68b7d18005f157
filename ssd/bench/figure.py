"""One number of a benchmark, with the limit it is held to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """`limit` is the largest value that is good enough; None where nothing was promised."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    note: str = ""

    @property
    def is_met(self) -> bool:
        return self.limit is None or self.value <= self.limit
