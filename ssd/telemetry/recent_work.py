"""What a verifier and its drafters did lately, for the ratios that a gauge shows.

Counters answer "how much since the start"; these answer "is it worth it now". All are taken over
the last minute, on the verifier's clock, all sessions together. Sums are kept by the second, so
that a scrape under load adds up sixty of them and not twenty thousand forwards.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, RoundRecord, WhyPlain

SECOND_NS = 10**9
WINDOW_S = 60
_FORWARDS_KEPT = 4096  # a drafter that gets no CPU may take a hundred short forwards for a step
_STEPS_KEPT = 1024
_PROBES = (WhyPlain.PROBE, WhyPlain.MODE)


@dataclass(frozen=True, slots=True)
class Forward:
    """One verification and what it brought to all its sessions."""

    records: Sequence[RoundRecord]  # of its sessions; they share the times
    mode: Mode
    num_tokens: int
    plain_s: float
    """What the cost model says that this many sessions without drafts would have taken."""

    @property
    def launch_ns(self) -> int:
        return self.records[0].launch_ns

    @property
    def end_ns(self) -> int:
        return self.records[0].end_ns

    @property
    def verify_ns(self) -> int:
        return self.records[0].verify_ns

    @property
    def cycle_ns(self) -> int:
        """From the end of the forward before, or from the first session, to its own end."""
        return self.records[0].wait_ns + self.verify_ns

    @property
    def is_probe(self) -> bool:
        """Whether it was plain decoding: roots alone, launched without a wait for drafts."""
        is_bare = self.records[0].num_batch_rows == len(self.records)
        return is_bare and any(each.why_plain in _PROBES for each in self.records)


@dataclass(slots=True)
class Tally:
    """Sums over a stretch of time; a ratio of nothing is 0."""

    verify_ns: Counter[Mode] = field(default_factory=Counter)
    cycle_ns: Counter[Mode] = field(default_factory=Counter)
    num_forwards: int = 0
    num_steps: int = 0
    draft_ns: int = 0
    shared_ns: int = 0  # draft time under a verification
    plain_s: float = 0.0  # of drafted forwards' tokens, had they been decoded plainly
    probes_took_s: float = 0.0
    probes_plain_s: float = 0.0
    num_tested: int = 0
    num_accepted: int = 0
    num_trees: int = 0
    depths: int = 0

    def add(self, other: "Tally") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def count(self, forward: Forward) -> None:
        self.num_forwards += 1
        self.verify_ns[forward.mode] += forward.verify_ns
        self.cycle_ns[forward.mode] += forward.cycle_ns
        if forward.mode.verifies_drafts:
            self.plain_s += forward.num_tokens / len(forward.records) * forward.plain_s
        if forward.is_probe:
            self.probes_took_s += forward.cycle_ns / 1e9
            self.probes_plain_s += forward.plain_s
        for each in forward.records:
            if each.num_proposed:
                self.num_trees += 1
                self.depths += each.tree_depth
                self.num_tested += each.num_tested
                self.num_accepted += each.num_accepted

    @property
    def modes(self) -> list[Mode]:
        """Those that were seen."""
        return [mode for mode in Mode if self.cycle_ns[mode]]

    @property
    def busy(self) -> float:
        """Verify time / time in which there was a session to verify for."""
        return _ratio(self.verify_ns.total(), self.cycle_ns.total())

    def verify_share(self, mode: Mode) -> float:
        """Verify time / (verify time + time between two verifications), of one mode."""
        return _ratio(self.verify_ns[mode], self.cycle_ns[mode])

    @property
    def overlap(self) -> float:
        """Draft time under a verification / draft time."""
        return _ratio(self.shared_ns, self.draft_ns)

    @property
    def draft_cost(self) -> float:
        """Seconds of a growth step / seconds of a verification."""
        step_ns = _ratio(self.draft_ns, self.num_steps)
        return _ratio(step_ns, _ratio(self.verify_ns.total(), self.num_forwards))

    @property
    def effective_acceptance(self) -> float:
        """Acceptance times the mean depth of what was verified."""
        return _ratio(self.num_accepted, self.num_tested) * _ratio(self.depths, self.num_trees)

    @property
    def speedup(self) -> float:
        """Time that plain decoding would have needed for the same tokens / the time it took.

        The cost model says what a plain forward takes; probes, and requests of mode `ar`, add what
        passes between two of them. Without a probe in this time the last one before it counts.
        """
        correction = _ratio(self.probes_took_s, self.probes_plain_s) or 1.0
        drafted_ns = sum(self.cycle_ns[mode] for mode in Mode if mode.verifies_drafts)
        return _ratio(self.plain_s * correction, drafted_ns / 1e9)


class RecentWork:
    """Written by one thread; a reader on another is at most a forward behind."""

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, Tally]] = deque(maxlen=WINDOW_S + 1)
        self._forwards: deque[tuple[int, int]] = deque(maxlen=_FORWARDS_KEPT)  # launch, end
        self._unsettled: deque[GrowthSpan] = deque(maxlen=_STEPS_KEPT)
        self._steps: deque[int] = deque(maxlen=_STEPS_KEPT)
        self._known_steps: set[int] = set()
        self._last_probe: Forward | None = None

    def grew(self, spans: Sequence[GrowthSpan]) -> None:
        """A step that served several sessions comes once per session and counts once."""
        for span in spans:
            if span.step not in self._known_steps:
                if len(self._steps) == _STEPS_KEPT:
                    self._known_steps.discard(self._steps[0])
                self._steps.append(span.step)
                self._known_steps.add(span.step)
                self._unsettled.append(span)

    def verified(self, forward: Forward) -> None:
        """Count a forward; no later one can lie over a step that ended before this one did."""
        self._forwards.append((forward.launch_ns, forward.end_ns))
        if forward.is_probe:
            self._last_probe = forward
        tally = self._tally_at(forward.end_ns)
        tally.count(forward)
        unsettled, self._unsettled = self._unsettled, deque(maxlen=_STEPS_KEPT)
        for span in unsettled:
            if span.end_ns > forward.end_ns:
                self._unsettled.append(span)
                continue
            tally.num_steps += 1
            tally.draft_ns += span.end_ns - span.start_ns
            tally.shared_ns += self._under_forwards(span)

    def lately(self, now_ns: int) -> Tally:
        """The last minute before `now_ns`."""
        since = now_ns // SECOND_NS - WINDOW_S
        total = Tally()
        for second, tally in tuple(self._seconds):
            if second >= since:
                total.add(tally)
        if not total.probes_plain_s and self._last_probe is not None:
            total.probes_took_s = self._last_probe.cycle_ns / 1e9
            total.probes_plain_s = self._last_probe.plain_s
        return total

    def _tally_at(self, now_ns: int) -> Tally:
        second = now_ns // SECOND_NS
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append((second, Tally()))
        return self._seconds[-1][1]

    def _under_forwards(self, span: GrowthSpan) -> int:
        shared_ns = 0
        for launch_ns, end_ns in reversed(self._forwards):
            if end_ns <= span.start_ns:
                break
            shared_ns += max(min(end_ns, span.end_ns) - max(launch_ns, span.start_ns), 0)
        return shared_ns


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
