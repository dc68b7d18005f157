"""What becomes of a request's notes: figures, spans, a log line."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog

from coordinator.request_spans import RequestSpans
from coordinator.request_watch import RequestWatch
from ssd.core.client_session import ClientSession
from ssd.core.rounds import RoundRecord
from ssd.telemetry.request_metrics import RequestFigures, RequestMetrics
from ssd.telemetry.trace_context import format_traceparent, parse_traceparent, traceparent_of
from ssd.telemetry.tracing import Tracing

log = structlog.get_logger()


class RequestTelemetry:
    """Makes figures, spans and a log line of every request."""

    def __init__(
        self,
        metrics: RequestMetrics,
        tracing: Tracing | None = None,
        *,
        logs_prompts: bool = False,
    ) -> None:
        self._metrics = metrics
        self._tracing = tracing
        self._logs_prompts = logs_prompts

    @contextmanager
    def watched(self, metadata: Mapping[str, str | bytes]) -> Iterator[RequestWatch]:
        """A watch for as long as the call runs; `metadata` is what came with it."""
        watch = RequestWatch()
        header = traceparent_of(metadata)
        spans = None
        if self._tracing is not None:
            spans = RequestSpans(self._tracing, watch, header)
        trace = parse_traceparent(header) if spans is None else spans.trace
        if trace is not None:  # without spans of ours it is for the logs alone
            watch.traceparent = format_traceparent(trace.root)
        structlog.contextvars.clear_contextvars()
        if trace is not None:
            structlog.contextvars.bind_contextvars(trace_id=trace.trace_id)
        try:
            yield watch
        finally:
            watch.ended_ns = time.monotonic_ns()
            self._ended(watch, watch.ended_ns)
            if spans is not None:
                spans.end(watch.ended_ns)

    @contextmanager
    def watched_answer(self, call: RequestWatch) -> Iterator[RequestWatch]:
        """A watch for one of the several answers of a call, below the call's span."""
        metadata = {"traceparent": call.traceparent} if call.traceparent else {}
        with self.watched(metadata) as watch:
            watch.model_name, watch.operation = call.model_name, call.operation
            yield watch

    def _ended(self, watch: RequestWatch, ended_ns: int) -> None:
        if watch.error is not None:
            self._metrics.refused(type(watch.error).__name__)
        if watch.books is None:
            return
        figures = _figures(watch, watch.books, ended_ns)
        self._metrics.ended(figures)
        log.info(
            "request ended",
            outcome=figures.outcome,
            mode=figures.mode.value,
            prompt_tokens=figures.prompt_tokens,
            output_tokens=figures.output_tokens,
            rounds=len(watch.books.rounds),
            plain_rounds=_plain_rounds(watch.books.rounds),
            seconds=round(figures.total_s, 4),
            **({"prompt": watch.prompt} if self._logs_prompts else {}),
        )


def _figures(watch: RequestWatch, books: ClientSession, ended_ns: int) -> RequestFigures:
    return RequestFigures(
        mode=books.admission.mode,
        outcome=watch.outcome,
        prompt_tokens=books.prompt_len,
        output_tokens=books.output_len,
        queue_s=_seconds(watch.admitted_ns, watch.turn_ns),
        first_token_s=_seconds(watch.received_ns, watch.first_token_ns),
        last_token_s=_seconds(watch.received_ns, watch.last_token_ns),
        total_s=(ended_ns - watch.received_ns) / 1e9,
        acceptance=_acceptance(books.rounds),
    )


def _plain_rounds(rounds: list[RoundRecord]) -> dict[str, int]:
    """How many rounds tested no draft, by the reason: speculation is never off in silence."""
    return dict(Counter(each.why_plain.value for each in rounds if each.why_plain is not None))


def _seconds(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / 1e9


def _acceptance(rounds: list[RoundRecord]) -> float | None:
    tested = sum(each.num_tested for each in rounds)
    return sum(each.num_accepted for each in rounds) / tested if tested else None
