"""What a drafter counts. docs/observability.md explains each name."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from ssd.core.messages import Grow, Refused
from ssd.telemetry.buckets import FORWARD_SECONDS
from ssd.telemetry.worker_metrics import WorkerFacts, worker_gauges


class DrafterMetrics:
    """One drafter's figures; everything but `collect` runs on its event loop."""

    def __init__(
        self, facts: Callable[[], WorkerFacts], *, num_verifiers: Callable[[], int]
    ) -> None:
        self.registry = CollectorRegistry()
        self._facts = facts
        self._num_verifiers = num_verifiers
        self._last_step = 0
        self._step_s = Histogram(
            "ssd_draft_step_seconds",
            "A growth step: one forward of the draft model.",
            buckets=FORWARD_SECONDS,
            registry=self.registry,
        )
        self._rows = self._counter("ssd_draft_rows_total", "Rows that the draft model ran.")
        self._expansions = self._counter("ssd_expansions_sent_total", "Expansions sent.")
        self._messages = self._counter("ssd_grow_messages_total", "Messages with expansions.")
        self._refused = self._counter("ssd_draft_refusals_total", "Sessions not drafted for.")
        self.registry.register(self)

    def reported(self, message: object) -> None:
        """What the engine says to a verifier."""
        match message:
            case Grow():
                self._messages.inc()
                self._expansions.inc(len(message.expansions))
                for span in message.spans:
                    self._rows.inc(span.num_rows)
                    if span.step != self._last_step:  # a step may have served several sessions
                        self._last_step = span.step
                        self._step_s.observe((span.end_ns - span.start_ns) / 1e9)
            case Refused():
                self._refused.inc()

    def collect(self) -> Iterable[Metric]:
        """The gauges; called by the registry, on the thread that serves the scrape."""
        yield from worker_gauges("drafter", self._facts())
        yield GaugeMetricFamily(
            "ssd_verifiers_attached", "Verifiers attached.", value=self._num_verifiers()
        )

    def _counter(self, name: str, words: str) -> Counter:
        return Counter(name, words, registry=self.registry)
