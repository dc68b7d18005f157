"""What happens to one request, noted for its figures, its trace and its log line.

received ──admitted──▶ queued ──turn──▶ placed* ──committed*──▶ ended

A watch only takes notes; `RequestTelemetry` makes something of them when the request has ended.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog

from ssd.core.client_session import ClientSession
from ssd.core.errors import SsdError
from ssd.core.messages import Commit
from ssd.core.rounds import RoundRecord
from ssd.telemetry.request_metrics import RequestFigures, RequestMetrics

log = structlog.get_logger()


class RequestWatch:
    """Notes of one request; times are nanoseconds of this process's monotonic clock."""

    def __init__(self) -> None:
        self.received_ns = time.monotonic_ns()
        self.admitted_ns: int | None = None
        self.turn_ns: int | None = None
        self.first_token_ns: int | None = None
        self.last_token_ns: int | None = None
        self.ended_ns: int | None = None
        self.books: ClientSession | None = None
        self.error: SsdError | None = None

    def admitted(self, books: ClientSession) -> None:
        """It has an id and a place in the queue."""
        self.books = books
        self.admitted_ns = time.monotonic_ns()
        structlog.contextvars.bind_contextvars(session_id=books.admission.session_id)

    def turn_came(self) -> None:
        self.turn_ns = time.monotonic_ns()

    def committed(self, commit: Commit) -> None:
        """Tokens entered the books."""
        self.last_token_ns = time.monotonic_ns()
        if self.first_token_ns is None:
            self.first_token_ns = self.last_token_ns

    def failed(self, error: SsdError) -> None:
        """What the client is told."""
        self.error = error

    @property
    def outcome(self) -> str:
        """stop or length; else cancelled, by a call or by leaving; else the error's name."""
        if self.error is not None:
            return type(self.error).__name__.lower()
        if self.books is not None and self.books.finish_reason is not None:
            return self.books.finish_reason.value
        return "cancelled"


class RequestTelemetry:
    """Makes figures and a log line of every request."""

    def __init__(self, metrics: RequestMetrics) -> None:
        self._metrics = metrics

    @contextmanager
    def watched(self, metadata: Mapping[str, str]) -> Iterator[RequestWatch]:
        """A watch for as long as the call runs; `metadata` is what came with it."""
        watch = RequestWatch()
        try:
            yield watch
        finally:
            watch.ended_ns = time.monotonic_ns()
            self._ended(watch, watch.ended_ns)

    def _ended(self, watch: RequestWatch, ended_ns: int) -> None:
        if watch.error is not None:
            self._metrics.refused(type(watch.error).__name__)
        if watch.books is None:
            return
        figures = _figures(watch, watch.books, ended_ns)
        self._metrics.ended(figures)
        log.info(
            "request ended",
            session_id=watch.books.admission.session_id,
            outcome=figures.outcome,
            mode=figures.mode.value,
            prompt_tokens=figures.prompt_tokens,
            output_tokens=figures.output_tokens,
            rounds=len(watch.books.rounds),
            seconds=round(figures.total_s, 4),
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


def _seconds(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / 1e9


def _acceptance(rounds: list[RoundRecord]) -> float | None:
    tested = sum(each.num_tested for each in rounds)
    return sum(each.num_accepted for each in rounds) / tested if tested else None
