"""What a verifier counts. docs/observability.md explains each name.

The event loop counts what it passes on; the engine's thread is not touched. Gauges are read off the
core when somebody scrapes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from ssd.core.ids import SessionId
from ssd.core.messages import Close, Commit, Finished, Open
from ssd.core.mode import Mode
from ssd.core.rounds import Lookup, RoundRecord, WhyPlain
from ssd.telemetry.buckets import FORWARD_SECONDS
from ssd.telemetry.drafter_parts import DrafterPartCounters
from ssd.telemetry.recent_work import Forward, RecentWork
from ssd.telemetry.shadow_metrics import ShadowMetrics
from ssd.telemetry.worker_metrics import WorkerFacts, worker_gauges

_SESSIONS_REMEMBERED = 4096  # those whose coordinator was lost end without a word
_DEEPEST = 16  # positions with a counter of their own
_LOOKUPS = (Lookup.HIT, Lookup.MISS_ABSENT, Lookup.MISS_KEY, Lookup.MISS_LATE)
_FALLBACKS = tuple(each for each in WhyPlain if each is not WhyPlain.MODE)


@dataclass(slots=True)
class _Session:
    """What is remembered of an open session between its rounds."""

    mode: Mode
    first_launch_ns: int | None = None


@dataclass(frozen=True, slots=True)
class VerifierFacts:
    """What only the verifier's own parts know, asked at each scrape."""

    worker: Callable[[], WorkerFacts]
    now_ns: Callable[[], int]
    num_drafters: Callable[[], int]
    plain_s: Callable[[int], float]
    """Seconds of a forward of this many rows."""


class VerifierMetrics:
    """One verifier's figures; everything but `collect` runs on its event loop."""

    def __init__(self, facts: VerifierFacts) -> None:
        self.registry = CollectorRegistry()
        self._facts = facts
        self._recent = RecentWork()
        self._sessions: dict[SessionId, _Session] = {}
        self._define()
        self.registry.register(self)

    def opened(self, opening: Open) -> None:
        if len(self._sessions) >= _SESSIONS_REMEMBERED:
            self._sessions.pop(next(iter(self._sessions)))
        self._sessions[opening.session_id] = _Session(opening.mode)

    def closed(self, message: Close | Finished) -> None:
        self._sessions.pop(message.session_id, None)

    def reported(self, messages: Sequence[object]) -> None:
        """What one engine step says to the coordinators."""
        counted: list[Commit] = []
        mode = Mode.AR
        for each in messages:
            if isinstance(each, Commit) and each.record is not None:
                session = self._sessions.get(each.session_id)
                if session is not None:
                    self._count(each, each.record, session)
                    counted.append(each)
                    mode = session.mode if session.mode.verifies_drafts else mode
        if counted:
            self._count_forward(counted, mode)
        for each in messages:
            if isinstance(each, Finished):
                self.closed(each)

    def collect(self) -> Iterable[Metric]:
        """The gauges; called by the registry, on the thread that serves the scrape."""
        lately = self._recent.lately(self._facts.now_ns())
        num_drafters = self._facts.num_drafters()
        yield from worker_gauges("verifier", self._facts.worker())
        yield _gauge("ssd_drafter_up", "1 while a drafter is attached.", float(num_drafters > 0))
        yield _gauge("ssd_drafters", "Drafters attached.", num_drafters)
        yield _gauge(
            "ssd_verifier_busy_ratio",
            "Verify time / time with a session to verify for, over the last minute.",
            lately.busy,
        )
        yield _gauge(
            "ssd_overlap_ratio",
            "Draft time under a verification / draft time, over the last minute.",
            lately.overlap,
        )
        yield _gauge(
            "ssd_draft_cost_ratio", "Growth step / verification, mean times.", lately.draft_cost
        )
        yield _gauge(
            "ssd_speedup_ratio",
            "Time of plain decoding / time taken, over the last minute; 0 without drafted rounds.",
            lately.speedup,
        )
        yield _gauge(
            "ssd_effective_acceptance",
            "Acceptance x depth of the trees, over the last minute.",
            lately.effective_acceptance,
        )
        share = GaugeMetricFamily(
            "ssd_verify_share_of_cycle",
            "Verify time / time from one verification's end to the next one's.",
            labels=["mode"],
        )
        for mode in lately.modes:
            share.add_metric([mode.value], lately.verify_share(mode))
        yield share

    def _define(self) -> None:
        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(name, words, labels, registry=self.registry)

        rounds = counter("ssd_rounds_total", "Rounds: one per session and verification.", "mode")
        tokens = counter("ssd_committed_tokens_total", "Tokens committed, bonus included.", "mode")
        self._rounds = {mode: rounds.labels(mode.value) for mode in Mode}
        self._tokens = {mode: tokens.labels(mode.value) for mode in Mode}
        self._drafted = counter("ssd_draft_tokens_total", "Drafted tokens that were verified.")
        self._tested = counter("ssd_tested_tokens_total", "Nodes walked that had a child.")
        self._accepted = counter("ssd_accepted_tokens_total", "Drafted tokens that were accepted.")
        self._wasted = counter(
            "ssd_wasted_draft_tokens_total", "Drafted tokens that were verified in vain."
        )
        positions = counter(
            "ssd_accepted_tokens_at_position_total",
            "Rounds that accepted a token at this depth, from 1.",
            "position",
        )
        self._positions = [positions.labels(str(depth)) for depth in range(1, _DEEPEST + 1)]
        lookups = counter("ssd_cache_lookups_total", "What the cursor found at commit.", "result")
        self._lookups = {each: lookups.labels(each.value) for each in _LOOKUPS}
        self._shadow = ShadowMetrics(self.registry)
        fallbacks = counter(
            "ssd_fallback_rounds_total",
            "Rounds of a drafted mode that verified the bare root, by reason.",
            "reason",
        )
        self._fallbacks = {each: fallbacks.labels(each.value) for each in _FALLBACKS}
        self._drafters = DrafterPartCounters(self.registry)
        self._verify_s = Histogram(
            "ssd_verify_seconds",
            "A verification, from launch until the target's tokens are known.",
            buckets=FORWARD_SECONDS,
            registry=self.registry,
        )
        self._wait_s = Histogram(
            "ssd_wait_seconds",
            "How long a verification that could have been launched waited for drafts.",
            buckets=FORWARD_SECONDS,
            registry=self.registry,
        )

    def _count(self, commit: Commit, record: RoundRecord, session: _Session) -> None:
        self._rounds[session.mode].inc()
        self._tokens[session.mode].inc(len(commit.token_ids))
        if record.num_proposed:
            self._drafted.inc(record.num_proposed)
            self._tested.inc(record.num_tested)
            self._accepted.inc(record.num_accepted)
            self._wasted.inc(record.num_proposed - record.num_accepted)
            for position in self._positions[: record.num_accepted]:
                position.inc()
        elif record.why_plain in self._fallbacks:
            self._fallbacks[record.why_plain].inc()
        self._drafters.count(record.drafters)
        if record.shadow is not None:
            self._shadow.count(record.shadow)
        if record.lookup is not Lookup.LAST:
            self._lookups[record.lookup].inc()
        if session.first_launch_ns is None:
            session.first_launch_ns = record.launch_ns
        since = session.first_launch_ns
        self._recent.grew([each for each in commit.growth if each.start_ns >= since])

    def _count_forward(self, commits: Sequence[Commit], mode: Mode) -> None:
        records = [each.record for each in commits if each.record is not None]
        self._verify_s.observe(records[0].verify_ns / 1e9)
        self._wait_s.observe(records[0].wait_ns / 1e9)
        self._recent.verified(
            Forward(
                records,
                mode,
                num_tokens=sum(len(each.token_ids) for each in commits),
                plain_s=self._facts.plain_s(len(commits)),
            )
        )


def _gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, value=value)
