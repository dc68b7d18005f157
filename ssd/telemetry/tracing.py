"""Spans that are made after the fact, from records with times of the monotonic clock.

Nothing is set up, and no span's cost is paid, unless the standard variables ask for traces:
OTEL_TRACES_EXPORTER (otlp or console) or an OTEL_EXPORTER_OTLP_ENDPOINT. Everything else is the
SDK's own business: OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_SPAN_*, OTEL_RESOURCE_ATTRIBUTES, ...
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
)
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    set_span_in_context,
)
from opentelemetry.util.types import AttributeValue

from ssd.core.errors import ConfigError

Attributes = Mapping[str, AttributeValue]
_SCOPE = "ssd"
_SWITCH_S = 0.0005
_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened within a span."""

    name: str
    time_ns: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """A span as our processes know it; times are nanoseconds of the monotonic clock.

    `context` fixes the span's own id; without it the id is a random one. A span without a parent
    starts a trace.
    """

    name: str
    start_ns: int
    end_ns: int
    parent: SpanContext | None = None
    context: SpanContext | None = None
    kind: SpanKind = SpanKind.INTERNAL
    attributes: Attributes = field(default_factory=dict)
    links: Sequence[SpanContext] = ()
    events: Sequence[SpanEvent] = ()
    error: str = ""


class Tracing:
    """A process's way out for spans; used from one thread."""

    def __init__(self, exporter: SpanExporter, *, service: str, instance: str) -> None:
        self._ids = _ChosenIds()
        self._provider = TracerProvider(
            resource=_resource(service, instance),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(_SCOPE)
        self._wall_ns = time.time_ns() - time.monotonic_ns()

    def set_clock(self) -> None:
        """Look at the wall clock again: it may have been set since the process started."""
        self._wall_ns = time.time_ns() - time.monotonic_ns()

    def start(
        self,
        name: str,
        start_ns: int,
        *,
        parent: SpanContext | None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        """A span that is still open; the sampler decides whether it records."""
        return self._tracer.start_span(
            name, context=_inside(parent), kind=kind, start_time=start_ns + self._wall_ns
        )

    def end(self, span: Span, end_ns: int) -> None:
        span.end(end_ns + self._wall_ns)

    def add(self, record: SpanRecord) -> SpanContext | None:
        """Export a span that has ended; None where the sampler does not want it."""
        if record.context is not None:
            self._ids.chosen = record.context.span_id
        span = self._tracer.start_span(
            record.name,
            context=_inside(record.parent),
            kind=record.kind,
            attributes=record.attributes,
            links=[Link(each) for each in record.links],
            start_time=record.start_ns + self._wall_ns,
        )
        self._ids.chosen = None
        if not span.is_recording():
            return None
        for event in record.events:
            span.add_event(event.name, event.attributes, event.time_ns + self._wall_ns)
        if record.error:
            span.set_status(Status(StatusCode.ERROR, record.error))
        self.end(span, record.end_ns)
        return span.get_span_context()

    def close(self) -> None:
        """Send what waits; blocks until it is sent, or the exporter gives up."""
        self._provider.shutdown()


def make_tracing(environ: Mapping[str, str], *, service: str, instance: str) -> Tracing | None:
    """What the standard variables ask for; None when they do not ask for traces.

    Raises:
        ConfigError: they ask for an exporter that there is none of here.
    """
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    has_endpoint = any(environ.get(each) for each in _ENDPOINTS)
    wanted = environ.get(_EXPORTER) or ("otlp" if has_endpoint else "none")
    if wanted == "none":
        return None
    # The exporter's thread encodes hundreds of spans in a row without a pause. An engine that comes
    # back from a forward meanwhile would wait 5 ms for the interpreter, each time anew.
    sys.setswitchinterval(_SWITCH_S)
    return Tracing(_exporter(wanted), service=service, instance=instance)


def _exporter(wanted: str) -> SpanExporter:
    if wanted == "otlp":
        # Loading it takes a tenth of a second that a process without traces need not spend.
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )

        return OTLPSpanExporter()
    if wanted == "console":
        return ConsoleSpanExporter()
    raise ConfigError(f"{_EXPORTER} must be otlp, console or none, not {wanted}")


def _resource(service: str, instance: str) -> Resource:
    """Our names, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES give others."""
    ours = Resource({"service.name": service, "service.instance.id": instance})
    given = Resource.create()
    name = str(given.attributes.get("service.name", ""))
    if not name or name.startswith("unknown_service"):
        return given.merge(ours)
    return ours.merge(given)


def _inside(parent: SpanContext | None) -> Context:
    return Context() if parent is None else set_span_in_context(NonRecordingSpan(parent), Context())


class _ChosenIds(RandomIdGenerator):
    """Random ids, but for a span whose id others derive too."""

    def __init__(self) -> None:
        self.chosen: int | None = None

    def generate_span_id(self) -> int:
        return super().generate_span_id() if self.chosen is None else self.chosen
