"""Takes spans as a collector does, for a command or a test that wants to see them itself."""

import base64
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2

ExportRequest = trace_service_pb2.ExportTraceServiceRequest
_GRACE_S = 0.5
_IDS = ("traceId", "spanId", "parentSpanId")


class OtlpReceiver(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps what was exported, in the order of arrival."""

    def __init__(self) -> None:
        self.endpoint = ""
        self._arrived = threading.Condition()
        self._requests: list[ExportRequest] = []

    def Export(  # noqa: N802 (the name is the protocol's)
        self, request: ExportRequest, context: Any
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        with self._arrived:
            self._requests.append(request)
            self._arrived.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    @property
    def requests(self) -> tuple[ExportRequest, ...]:
        with self._arrived:
            return tuple(self._requests)

    @property
    def spans(self) -> list[tuple[str, trace_pb2.Span]]:
        """(service, span) of all that came."""
        return [
            (service_of(resource_spans), span)
            for request in self.requests
            for resource_spans in request.resource_spans
            for scope_spans in resource_spans.scope_spans
            for span in scope_spans.spans
        ]

    def wait_until(self, holds: Callable[[], bool], *, timeout_s: float) -> bool:
        """Whether it held in time; asked again at each arrival."""
        with self._arrived:
            return self._arrived.wait_for(holds, timeout_s)


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """A receiver on a free port of this machine while the block runs."""
    receiver = OtlpReceiver()
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(receiver, server)
    port = server.add_insecure_port("127.0.0.1:0")
    receiver.endpoint = f"http://127.0.0.1:{port}"
    server.start()
    try:
        yield receiver
    finally:
        server.stop(_GRACE_S).wait()


def service_of(resource_spans: trace_pb2.ResourceSpans) -> str:
    """The service that exported it."""
    names = [
        each.value.string_value
        for each in resource_spans.resource.attributes
        if each.key == "service.name"
    ]
    return names[0] if names else ""


def as_json(requests: Sequence[ExportRequest]) -> dict[str, Any]:
    """One document of OTLP's JSON form, in which ids are hexadecimal."""
    merged = ExportRequest()
    for request in requests:
        merged.resource_spans.extend(request.resource_spans)
    document: dict[str, Any] = MessageToDict(merged, use_integers_for_enums=True)
    for resource_spans in document.get("resourceSpans", []):
        for scope_spans in resource_spans["scopeSpans"]:
            for span in scope_spans["spans"]:
                for each in (span, *span.get("links", [])):
                    _make_hexadecimal(each)
    return document


def _make_hexadecimal(record: dict[str, Any]) -> None:
    for name in _IDS:
        if name in record:
            record[name] = base64.b64decode(record[name]).hex()
