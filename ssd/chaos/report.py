"""What a run of chaos showed: faults by kind, requests, equal texts, gaps, statuses."""

from collections import Counter
from dataclasses import dataclass, field

from rich import box
from rich.table import Table

from ssd.chaos.process_faults import Fault
from ssd.chaos.streams import Outcome


@dataclass(slots=True)
class ChaosReport:
    """Everything counted; `is_clean` says that no client got a wrong token."""

    seed: int
    num_streams: int
    seconds: float = 0.0
    outcomes: list[Outcome] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    stood_again_s: dict[str, list[float]] = field(default_factory=dict)

    def struck(self, fault: Fault, *, stood_again_s: float) -> None:
        self.faults[fault.name] += 1
        self.stood_again_s.setdefault(fault.name, []).append(stood_again_s)

    @property
    def num_identical(self) -> int:
        return sum(each.is_identical for each in self.outcomes)

    @property
    def num_wrong(self) -> int:
        return sum(each.is_wrong for each in self.outcomes)

    @property
    def statuses(self) -> Counter[str]:
        return Counter(each.status for each in self.outcomes)

    @property
    def words(self) -> dict[str, str]:
        """What the first error of each status said."""
        said: dict[str, str] = {}
        for each in self.outcomes:
            if each.words:
                said.setdefault(each.status, each.words)
        return said

    @property
    def is_clean(self) -> bool:
        return not self.num_wrong and self.num_identical > 0

    def gap_s(self, share: float) -> float:
        """The longest silence in a completed stream that this share of them stayed below."""
        gaps = sorted(each.gap_s for each in self.outcomes if each.status == "OK")
        return gaps[min(int(share * len(gaps)), len(gaps) - 1)] if gaps else 0.0

    def as_json(self) -> dict[str, object]:
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "streams": self.num_streams,
            "faults": dict(sorted(self.faults.items())),
            "stood_again_s": {
                name: {"median": _middle(each), "longest": max(each)}
                for name, each in sorted(self.stood_again_s.items())
            },
            "requests": len(self.outcomes),
            "identical": self.num_identical,
            "cut_off_with_a_status": len(self.outcomes) - self.num_identical - self.num_wrong,
            "wrong": self.num_wrong,
            "tokens": sum(len(each.token_ids) for each in self.outcomes),
            "statuses": dict(self.statuses),
            "words": self.words,
            "gap_s": {name: round(self.gap_s(at), 3) for name, at in _GAPS.items()},
        }


_GAPS = {"median": 0.5, "p99": 0.99, "longest": 1.0}


def report_table(report: ChaosReport) -> list[Table]:
    """The faults, and what the clients saw."""
    faults = Table(box=box.SIMPLE_HEAD, title="faults")
    for column in ("fault", "times", "stood again after: median", "longest"):
        faults.add_column(column, justify="left" if column == "fault" else "right")
    for name, times in sorted(report.faults.items()):
        seconds = report.stood_again_s[name]
        faults.add_row(name, str(times), f"{_middle(seconds):.1f} s", f"{max(seconds):.1f} s")
    seen = Table(box=box.SIMPLE_HEAD, title="what the clients saw", show_header=False)
    values = report.as_json()
    for name in ("requests", "identical", "cut_off_with_a_status", "wrong", "tokens"):
        seen.add_row(name.replace("_", " "), str(values[name]))
    seen.add_row("statuses", ", ".join(f"{k} {v}" for k, v in sorted(report.statuses.items())))
    for status, words in sorted(report.words.items()):
        seen.add_row(f"{status} said", words)
    gaps = ", ".join(f"{name} {report.gap_s(at):.2f} s" for name, at in _GAPS.items())
    seen.add_row("longest silence of a stream", gaps)
    return [faults, seen]


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
