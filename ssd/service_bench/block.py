"""Runs of one block, one contender, and what they add up to."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from ssd.core.rounds import GrowthSpan, Lookup, RoundRecord

_MISSES = (Lookup.MISS_LATE, Lookup.MISS_KEY, Lookup.MISS_ABSENT)


@dataclass(frozen=True, slots=True)
class Run:
    """One answer; times are seconds of the client's clock."""

    prompt: str
    token_ids: tuple[int, ...]
    first_s: float
    last_s: float
    rounds: tuple[RoundRecord, ...]
    growth: tuple[GrowthSpan, ...]


@dataclass(frozen=True, slots=True)
class Wave:
    """Runs that were asked for at the same time."""

    runs: tuple[Run, ...]

    @property
    def num_tokens(self) -> int:
        """After the first of each, which waits for the prompt."""
        return sum(len(run.token_ids) - 1 for run in self.runs)

    @property
    def seconds(self) -> float:
        return max(run.last_s for run in self.runs) - min(run.first_s for run in self.runs)

    @property
    def rounds(self) -> list[RoundRecord]:
        """Each verification once, though every session has a record of it, in order."""
        by_id = {each.round_id: each for run in self.runs for each in run.rounds}
        return sorted(by_id.values(), key=lambda each: each.launch_ns)


@dataclass(frozen=True, slots=True)
class Block:
    """A contender's waves of one block."""

    waves: tuple[Wave, ...]

    @property
    def tokens_per_s(self) -> float:
        seconds = sum(wave.seconds for wave in self.waves)
        return sum(wave.num_tokens for wave in self.waves) / seconds if seconds > 0 else 0.0

    @property
    def runs(self) -> list[Run]:
        return [run for wave in self.waves for run in wave.runs]


@dataclass(frozen=True, slots=True)
class Figures:
    """What the rounds of a contender's blocks say; words as in `ssd.core.rounds`.

    Milliseconds are medians. `gap_ms` passes between the end of a verification and the launch of
    the next of the same text, waiting for drafts included; `hit_gap_ms` counts only those after a
    hit, its lowest quarter, which wait for nothing: what the service itself costs on that way.
    """

    tokens_per_round: float
    acceptance: float
    hit_rate: float
    misses: dict[str, int]
    verify_ms: float
    draft_step_ms: float
    rows_per_step: float
    wait_ms: float
    gap_ms: float
    hit_gap_ms: float
    busy: float
    nodes_per_round: float
    steps_per_round: float
    useful_overlap: float


def figures_of(blocks: Sequence[Block], useful_overlap: Callable[[Run], float]) -> Figures:
    """Over all runs of the blocks."""
    runs = [run for block in blocks for run in block.runs]
    waves = [wave for block in blocks for wave in block.waves]
    rounds = [each for run in runs for each in run.rounds]
    lookups = Counter(each.lookup for each in rounds)
    num_looked = sum(count for kind, count in lookups.items() if kind is not Lookup.LAST)
    steps = {span.step: span for run in runs for span in run.growth}.values()
    verified_ns = sum(each.end_ns - each.launch_ns for wave in waves for each in wave.rounds)
    gaps = [gap for run in runs for gap in _gaps(run.rounds)]
    hit_gaps = sorted(gap for gap, after_hit in gaps if after_hit)
    return Figures(
        tokens_per_round=_ratio(sum(len(run.token_ids) for run in runs), len(rounds)),
        acceptance=_ratio(_sum(rounds, "num_accepted"), _sum(rounds, "num_tested")),
        hit_rate=_ratio(lookups[Lookup.HIT], num_looked),
        misses={kind.value: lookups[kind] for kind in _MISSES},
        verify_ms=_median((each.end_ns - each.launch_ns) / 1e6 for each in rounds),
        draft_step_ms=_median((span.end_ns - span.start_ns) / 1e6 for span in steps),
        rows_per_step=_ratio(sum(span.num_rows for span in steps), len(steps)),
        wait_ms=_ratio(_sum(rounds, "wait_ns"), len(rounds)) / 1e6,
        gap_ms=_median(gap for gap, _ in gaps),
        hit_gap_ms=hit_gaps[len(hit_gaps) // 4] if hit_gaps else 0.0,
        busy=_ratio(verified_ns, sum(_span_ns(wave) for wave in waves)),
        nodes_per_round=_ratio(_sum(rounds, "num_proposed"), len(rounds)),
        steps_per_round=_ratio(len(steps), len({each.round_id for each in rounds})),
        useful_overlap=_median(useful_overlap(run) for run in runs),
    )


def _gaps(rounds: Sequence[RoundRecord]) -> list[tuple[float, bool]]:
    """(milliseconds, whether the cursor stood expanded) between one text's verifications."""
    pairs = pairwise(rounds)
    return [
        ((later.launch_ns - each.end_ns) / 1e6, each.lookup is Lookup.HIT) for each, later in pairs
    ]


def _span_ns(wave: Wave) -> int:
    rounds = wave.rounds
    return max(each.end_ns for each in rounds) - rounds[0].launch_ns if rounds else 0


def _sum(rounds: Iterable[RoundRecord], name: str) -> int:
    return sum(getattr(each, name) for each in rounds)


def _median(values: Iterable[float]) -> float:
    found = list(values)
    return median(found) if found else 0.0


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
