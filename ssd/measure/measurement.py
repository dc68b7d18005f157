"""One way to decode, on all prompts at one temperature: its figures, pooled over the runs.

Pooled and not averaged: a long text counts for more than a short one, as it does for the machine.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, Lookup, RoundRecord
from ssd.core.speculation_limits import SpeculationLimits
from ssd.report import RunRecord

_RARE = 0.05  # a depth that fewer rounds reach is not worth drafting for


@dataclass(frozen=True, slots=True)
class Way:
    """How to decode: a mode, by whom it is drafted for, and within which bounds."""

    mode: Mode
    drafter: str = ""
    limits: SpeculationLimits = field(default_factory=SpeculationLimits)

    def __str__(self) -> str:
        nodes = self.limits.max_nodes
        words = [self.mode.value, self.drafter, "" if nodes is None else f"{nodes} nodes"]
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Measurement:
    """What came back; `ssd.core.rounds` defines the words."""

    way: Way
    temperature: float
    runs: tuple[RunRecord, ...]

    @property
    def tokens_per_s(self) -> float:
        """By the verifier's commits, the first of each text left out.

        The client's clock says little of short texts on a machine whose cores are shared.
        """
        runs = [run for run in self.runs if run.rounds]
        tokens = sum(run.num_tokens - run.rounds[0].num_accepted - 1 for run in runs)
        elapsed_ns = sum(run.rounds[-1].end_ns - run.rounds[0].end_ns for run in runs)
        return _ratio(tokens, elapsed_ns / 1e9)

    @property
    def client_tokens_per_s(self) -> float:
        """At the client, the waits for first tokens left out."""
        tokens = sum(max(run.num_tokens - 1, 0) for run in self.runs)
        return _ratio(tokens, sum(run.last_token_s - run.first_token_s for run in self.runs))

    @property
    def acceptance(self) -> float:
        rounds = self._rounds
        return _ratio(
            sum(each.num_accepted for each in rounds), sum(each.num_tested for each in rounds)
        )

    @property
    def node_yield(self) -> float:
        rounds = self._rounds
        return _ratio(
            sum(each.num_accepted for each in rounds), sum(each.num_proposed for each in rounds)
        )

    @property
    def tokens_per_round(self) -> float:
        return _ratio(sum(run.num_tokens for run in self.runs), len(self._rounds))

    @property
    def hit_rate(self) -> float:
        lookups = [each.lookup for each in self._rounds if each.lookup is not Lookup.LAST]
        return _ratio(lookups.count(Lookup.HIT), len(lookups))

    @property
    def verify_share(self) -> float:
        """Of the cycle, from one verification's launch to the next: what is verification."""
        return _ratio(sum(each.verify_ns for each in self._rounds), self._elapsed_ns)

    @property
    def draft_share(self) -> float:
        """Of the same time: while the drafter computes; both can be near 1, which is the point."""
        return _ratio(sum(_lasted(each) for each in self._growth), self._elapsed_ns)

    @property
    def verify_s(self) -> float:
        """Of a middling round."""
        return _middle(each.verify_ns for each in self._rounds) / 1e9

    @property
    def rows(self) -> float:
        """Of a middling verification."""
        return _middle(each.num_batch_rows for each in self._rounds)

    @property
    def between_s(self) -> float:
        """From one round's end to the next one's launch, middling."""
        return _middle(each.wait_ns for each in self._rounds) / 1e9

    @property
    def step_s(self) -> float:
        """From the start of one growth step to the next one's, where they follow each other.

        A step's messages and books come between the two, and they are part of what it costs.
        """
        gaps: list[int] = []
        for run in self.runs:
            spans = sorted(run.growth, key=lambda each: each.start_ns)
            pairs = pairwise(spans)
            gaps += [
                after.start_ns - before.start_ns
                for before, after in pairs
                if after.start_ns - before.end_ns < 2 * _lasted(before)
            ]
        return _middle(gaps) / 1e9

    @property
    def tree_nodes(self) -> int:
        """The most that one round verified beside its root."""
        return max((each.num_proposed for each in self._rounds), default=0)

    @property
    def tree_depth(self) -> int:
        """The longest path that one round verified."""
        return max((each.tree_depth for each in self._rounds), default=0)

    @property
    def useful_depth(self) -> int:
        """The deepest at which at least one round in twenty accepted a token."""
        accepted = [each.num_accepted for each in self._rounds]
        depths = range(1, max(accepted, default=0) + 1)
        often = [d for d in depths if sum(each >= d for each in accepted) >= _RARE * len(accepted)]
        return max(often, default=0)

    @property
    def came_in_bursts(self) -> bool:
        """Whether a text reached us so unevenly that its tokens per second say nothing."""
        return any(run.came_in_bursts for run in self.runs)

    @property
    def _rounds(self) -> Sequence[RoundRecord]:
        return [each for run in self.runs for each in run.rounds]

    @property
    def _growth(self) -> Sequence[GrowthSpan]:
        """Steps that ran between the first launch and the last end."""
        return [
            span
            for run in self.runs
            if run.rounds
            for span in run.growth
            if span.start_ns >= run.rounds[0].launch_ns and span.end_ns <= run.rounds[-1].end_ns
        ]

    @property
    def _elapsed_ns(self) -> int:
        runs = [run for run in self.runs if run.rounds]
        return sum(run.rounds[-1].end_ns - run.rounds[0].launch_ns for run in runs)


def _lasted(span: GrowthSpan) -> int:
    return span.end_ns - span.start_ns


def _middle(values: Iterable[float]) -> float:
    listed = list(values)
    return median(listed) if listed else 0.0


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
