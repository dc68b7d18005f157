"""What a demo found, as report.json holds it."""

from dataclasses import asdict, dataclass

from ssd.report.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Served:
    """The pair that ran, and what it promises."""

    target: str
    draft: str
    dtype: str
    draft_dtype: str
    fingerprint: str
    exactness: str


@dataclass(frozen=True, slots=True)
class DemoReport:
    """Every run, and the pair that ran."""

    served: Served
    comparison: Comparison

    @property
    def is_identical(self) -> bool:
        """Whether no draft changed an id."""
        return not self.comparison.differences

    @property
    def came_in_bursts(self) -> bool:
        """Whether a text reached the client so unevenly that its tokens per second say nothing."""
        return any(run.came_in_bursts for run in self.comparison.runs)

    def as_json(self) -> dict[str, object]:
        return {
            **asdict(self.served),
            "identical_to_ar": self.is_identical,
            "came_in_bursts": self.came_in_bursts,
            "runs": self.comparison.as_json(),
        }
