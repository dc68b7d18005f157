"""What a verifier and its drafters did lately, for the ratios that a gauge shows.

Counters answer "how much since the start"; these answer "is it worth it now". All are taken over
the forwards of the last minute, on the verifier's clock, all sessions together.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, RoundRecord, overlap_of

WINDOW_NS = 60 * 10**9
_MOST_KEPT = 20_000  # of each kind; a minute of forwards of 3 ms


@dataclass(frozen=True, slots=True)
class Forward:
    """One verification and what it brought to all its sessions."""

    record: RoundRecord  # of any of its sessions: they share the times
    mode: Mode
    num_sessions: int
    num_tokens: int
    plain_s: float
    """What the cost model says that this many sessions without drafts would have taken."""

    @property
    def is_plain(self) -> bool:
        """Whether it verified roots alone: a probe of plain decoding."""
        return self.record.num_batch_rows == self.num_sessions

    @property
    def cycle_ns(self) -> int:
        """From the end of the forward before, or from the first session, to its own end."""
        return self.record.wait_ns + self.record.verify_ns


class RecentWork:
    """Owned by one thread; a reader on another gets a copy that is at most a forward behind."""

    def __init__(self) -> None:
        self._forwards: deque[Forward] = deque(maxlen=_MOST_KEPT)
        self._growth: deque[GrowthSpan] = deque(maxlen=_MOST_KEPT)
        self._steps: set[int] = set()

    def verified(self, forward: Forward) -> None:
        self._forwards.append(forward)

    def grew(self, spans: Sequence[GrowthSpan]) -> None:
        """A step that served several sessions comes once per session and counts once."""
        for span in spans:
            if span.step not in self._steps:
                if len(self._growth) == _MOST_KEPT:
                    self._steps.discard(self._growth[0].step)
                self._steps.add(span.step)
                self._growth.append(span)

    def until(self, now_ns: int) -> "Lately":
        """The last minute before `now_ns`."""
        since = now_ns - WINDOW_NS
        return Lately(
            forwards=[each for each in tuple(self._forwards) if each.record.end_ns >= since],
            growth=[each for each in tuple(self._growth) if each.end_ns >= since],
        )


@dataclass(frozen=True, slots=True)
class Lately:
    """Ratios over a stretch of time; a ratio of nothing is 0."""

    forwards: Sequence[Forward]
    growth: Sequence[GrowthSpan]

    @property
    def busy(self) -> float:
        """Verify time / time in which there was a session to verify for."""
        return self.verify_share(None)

    @property
    def overlap(self) -> float:
        """Draft time under a verification / draft time, between the first launch and the end."""
        return overlap_of([each.record for each in self.forwards], self.growth)

    def verify_share(self, mode: Mode | None) -> float:
        """Verify time / (verify time + time between two verifications), of one mode or of all."""
        chosen = [each for each in self.forwards if mode in (None, each.mode)]
        return _ratio(
            sum(each.record.verify_ns for each in chosen), sum(each.cycle_ns for each in chosen)
        )

    @property
    def draft_cost(self) -> float:
        """Seconds of a growth step / seconds of a verification."""
        steps = [each.end_ns - each.start_ns for each in self.growth]
        forwards = [each.record.verify_ns for each in self.forwards]
        return _ratio(_mean(steps), _mean(forwards))

    @property
    def speedup(self) -> float:
        """Time that plain decoding would have needed for the same tokens / the time it took.

        The cost model says what a plain forward takes; forwards that happened to be plain (the
        first of a text, those after a miss) correct it.
        """
        drafted = [each for each in self.forwards if each.mode is not Mode.AR]
        plain_s = sum(each.num_tokens / each.num_sessions * each.plain_s for each in drafted)
        cycle_s = sum(each.cycle_ns for each in drafted) / 1e9
        return _ratio(plain_s * self._correction, cycle_s)

    @property
    def _correction(self) -> float:
        probes = [each for each in self.forwards if each.is_plain]
        took_s = sum(each.record.verify_ns for each in probes) / 1e9
        return _ratio(took_s, sum(each.plain_s for each in probes)) or 1.0


def _mean(values: Sequence[int]) -> float:
    return _ratio(sum(values), len(values))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
