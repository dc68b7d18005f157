"""What a coordinator counts about its requests. docs/observability.md explains each name."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ssd.core.mode import Mode
from ssd.telemetry.buckets import REQUEST_SECONDS, SHARES, TOKEN_SECONDS


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The state of the session table at one moment."""

    num_running: int
    num_queued: int
    num_verifiers: int
    num_stale: int
    openings: Mapping[str, int] = field(default_factory=dict)
    """How often sessions were opened on a verifier, by the reason."""


@dataclass(frozen=True, slots=True)
class RequestFigures:
    """One request that was admitted, at its end; times in seconds."""

    mode: Mode
    outcome: str
    prompt_tokens: int
    output_tokens: int
    queue_s: float | None
    first_token_s: float | None
    last_token_s: float | None
    total_s: float
    acceptance: float | None
    """None where nothing was tested."""


class RequestMetrics:
    """One coordinator's figures; everything but `collect` runs on its event loop."""

    def __init__(self, facts: Callable[[], TableFacts]) -> None:
        self.registry = CollectorRegistry()
        self._facts = facts
        self._define()
        self.registry.register(self)

    def refused(self, kind: str) -> None:
        """A call ended with this error of `ssd.core.errors`."""
        self._errors.labels(kind).inc()

    def ended(self, figures: RequestFigures) -> None:
        self._requests.labels(figures.mode.value, figures.outcome).inc()
        self._prompt_tokens.inc(figures.prompt_tokens)
        self._output_tokens.inc(figures.output_tokens)
        self._request_s.observe(figures.total_s)
        if figures.queue_s is not None:
            self._queue_s.observe(figures.queue_s)
        if figures.first_token_s is not None and figures.last_token_s is not None:
            self._first_token_s.observe(figures.first_token_s)
            if figures.output_tokens > 1:
                seconds = figures.last_token_s - figures.first_token_s
                self._token_s.observe(seconds / (figures.output_tokens - 1))
        if figures.acceptance is not None:
            self._acceptance.observe(figures.acceptance)

    def collect(self) -> Iterable[Metric]:
        """The gauges; called by the registry, on the thread that serves the scrape."""
        facts = self._facts()
        yield _gauge("ssd_requests_running", "Requests that had their turn.", facts.num_running)
        yield _gauge("ssd_requests_queued", "Requests that wait for a turn.", facts.num_queued)
        yield _gauge("ssd_verifiers", "Verifiers attached.", facts.num_verifiers)
        stale = CounterMetricFamily(
            "ssd_stale_messages",
            "Messages of a departed session, an older epoch or a passed text.",
            labels=["role"],
        )
        stale.add_metric(["coordinator"], facts.num_stale)
        yield stale
        openings = CounterMetricFamily(
            "ssd_session_openings",
            "Sessions opened on a verifier, by the reason: the start, or a move.",
            labels=["reason"],
        )
        for reason, count in facts.openings.items():
            openings.add_metric([reason], count)
        yield openings

    def _define(self) -> None:
        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(name, words, labels, registry=self.registry)

        def histogram(name: str, words: str, bounds: tuple[float, ...]) -> Histogram:
            return Histogram(name, words, buckets=bounds, registry=self.registry)

        self._requests = counter(
            "ssd_requests_total", "Admitted requests that ended.", "mode", "outcome"
        )
        self._errors = counter("ssd_request_errors_total", "Calls that ended in an error.", "kind")
        self._prompt_tokens = counter("ssd_prompt_tokens_total", "Tokens of prompts.")
        self._output_tokens = counter("ssd_generation_tokens_total", "Tokens generated.")
        self._queue_s = histogram(
            "ssd_queue_seconds", "From admission until its turn.", REQUEST_SECONDS
        )
        self._first_token_s = histogram(
            "ssd_time_to_first_token_seconds",
            "From the call until its first token is in the books.",
            REQUEST_SECONDS,
        )
        self._token_s = histogram(
            "ssd_time_per_output_token_seconds",
            "(last token - first token) / (tokens - 1), by request.",
            TOKEN_SECONDS,
        )
        self._request_s = histogram("ssd_request_seconds", "Whole requests.", REQUEST_SECONDS)
        self._acceptance = histogram(
            "ssd_request_acceptance", "Acceptance of a whole request.", SHARES
        )


def _gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, value=value)
