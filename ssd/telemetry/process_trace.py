"""Forwards that served several requests: spans of a trace of the process's own.

A trace that grew for days could not be opened, so a new one begins every minute.
"""

from collections.abc import Sequence

from opentelemetry.trace import Span, SpanContext

from ssd.telemetry.tracing import Attributes, SpanRecord, Tracing

_TRACE_NS = 60 * 10**9


class ProcessTrace:
    """The trace of one process's engine."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._minute: Span | None = None
        self._until_ns = 0
        self._last_ns = 0

    def add_step(
        self,
        start_ns: int,
        end_ns: int,
        *,
        serves: Sequence[SpanContext],
        attributes: Attributes,
    ) -> SpanContext | None:
        """A forward, linked to the requests' spans; its own, None where it is not sampled."""
        minute = self._minute_at(start_ns)
        self._last_ns = max(self._last_ns, end_ns)
        return self._tracing.add(
            SpanRecord(
                "ssd.engine.step",
                start_ns,
                end_ns,
                parent=minute.get_span_context(),
                links=serves,
                attributes=attributes,
            )
        )

    def close(self) -> None:
        """End the minute at hand."""
        if self._minute is not None:
            self._tracing.end(self._minute, self._last_ns)
            self._minute = None

    def _minute_at(self, start_ns: int) -> Span:
        if self._minute is None or start_ns > self._until_ns:
            self.close()
            self._minute = self._tracing.start("ssd.engine", start_ns, parent=None)
            self._until_ns = start_ns + _TRACE_NS
        return self._minute
