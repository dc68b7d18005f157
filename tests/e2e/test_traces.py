"""One request through three real processes, as a collector sees it."""

import base64
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes
from typer.testing import CliRunner

from ssd.cli.main import app
from ssd.client import Client, Completion, Options
from ssd.core.mode import Mode
from ssd.core.rounds import overlap_of
from ssd.telemetry.scraping import scrape
from ssd.wire.otlp_receiver import ExportRequest, OtlpReceiver, as_json, otlp_receiver
from tests.e2e.processes import Service
from tests.models.tiny_pair import write_tiny_pair

pytestmark = pytest.mark.timeout(300)

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
UNSAMPLED = "1af7651916cd43dd8448eb211c80319c"
NUM_TOKENS = 240
ONCE = ("--once", "--interval", "0.3")
HEARTBEATS_S = 1.0  # the first tells the verifier the drafter's clock


@dataclass(frozen=True, slots=True)
class Traced:
    """What came of one request, and of one that the caller did not sample."""

    receiver: OtlpReceiver
    unsampled: Completion  # came first
    completion: Completion
    overlap_ratio: float  # the verifier's metric, right after the request
    top: str  # what `ssd top --once` said

    def spans(self, name: str, service: str = "") -> list[trace_pb2.Span]:
        found = [
            span
            for origin, span in self.receiver.spans
            if span.name == name and origin.startswith(service)
        ]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    def span(self, name: str, service: str = "") -> trace_pb2.Span:
        found = self.spans(name, service)
        assert len(found) == 1, [each.name for _, each in self.receiver.spans]
        return found[0]

    @property
    def root(self) -> trace_pb2.Span:
        return next(
            span for _, span in self.receiver.spans if span.kind == trace_pb2.Span.SPAN_KIND_SERVER
        )


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    folder = tmp_path_factory.mktemp("traced")
    pair = write_tiny_pair(folder, num_idle_layers=8)  # else a target may never wait for drafts
    service = Service(folder, pair.target, pair.draft)
    with otlp_receiver() as receiver, pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        environment.setenv("OTEL_EXPORTER_OTLP_INSECURE", "true")
        try:
            # Drafts hardly pay with so small a target, and what is paused leaves no spans.
            service.start_all(speculation__adapt="false")
            with Client(service.address) as client:
                unsampled = generate(
                    client, traceparent=f"00-{UNSAMPLED}-{CALLER}-00", max_tokens=8
                )
                time.sleep(HEARTBEATS_S)
                completion = generate(client, traceparent=f"00-{TRACE_ID}-{CALLER}-01")
                workers = {each.worker.name: each.worker for each in client.status().workers}
            verifier = scrape(workers["verifier-0"].metrics_address)
            top = CliRunner().invoke(app, ["top", "--address", service.address, *ONCE])
            for process in reversed(service.processes.values()):
                assert process.terminate() == 0  # what waited is sent before the end
        finally:
            service.close()
        overlap_ratio = verifier.value("ssd_overlap_ratio")
        yield Traced(receiver, unsampled, completion, overlap_ratio, top.output)


def generate(client: Client, *, traceparent: str, max_tokens: int = NUM_TOKENS) -> Completion:
    options = Options(
        mode=Mode.SSD,
        temperature=0.0,
        seed=5,
        max_tokens=max_tokens,
        ignore_eos=True,
        include_rounds=True,
        traceparent=traceparent,
    )
    generation = client.generate("Once upon a time", options)
    for _ in generation:
        pass
    return generation.completion


def attributes(span: trace_pb2.Span) -> dict[str, object]:
    values = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        assert kind is not None
        value = getattr(each.value, kind)
        if kind == "array_value":
            value = [getattr(item, item.WhichOneof("value") or "") for item in value.values]
        values[each.key] = value
    return values


def test_three_services_make_one_trace(traced: Traced) -> None:
    assert {origin for origin, _ in traced.receiver.spans} == {
        "ssd-coordinator",
        "ssd-verifier",
        "ssd-drafter",
    }
    assert {span.trace_id.hex() for _, span in traced.receiver.spans} == {TRACE_ID}


def test_the_callers_span_is_the_parent_of_the_root(traced: Traced) -> None:
    assert traced.root.parent_span_id.hex() == CALLER
    assert traced.root.name.startswith("text_completion ")


def test_every_parent_is_there(traced: Traced) -> None:
    decode = traced.span("ssd.decode", "ssd-coordinator")
    for name, service in (
        ("ssd.queue", "ssd-coordinator"),
        ("ssd.prefill", "ssd-verifier"),
        ("ssd.prefill", "ssd-drafter"),
        ("ssd.decode", "ssd-coordinator"),
    ):
        assert traced.span(name, service).parent_span_id == traced.root.span_id
    for each in (*traced.spans("ssd.verify"), *traced.spans("ssd.speculate")):
        assert each.parent_span_id == decode.span_id
        assert each.start_time_unix_nano >= traced.root.start_time_unix_nano
        assert each.end_time_unix_nano > each.start_time_unix_nano
    ids = [span.span_id for _, span in traced.receiver.spans]
    assert len(set(ids)) == len(ids)


def test_there_is_a_verify_span_per_round_with_its_figures(traced: Traced) -> None:
    spans, rounds = traced.spans("ssd.verify", "ssd-verifier"), traced.completion.rounds
    assert len(spans) == len(rounds)
    for span, record in zip(spans, rounds, strict=True):
        found = attributes(span)
        assert found["ssd.round"] == record.round_id
        assert found["ssd.base_len"] == record.base_len
        assert found["ssd.nodes"] == record.num_proposed
        assert found["ssd.accepted"] == record.num_accepted
        assert found["ssd.lookup"] == record.lookup.value
        assert found["ssd.batch_rows"] == record.num_batch_rows
        assert found["ssd.drafter.clock_offset_ms"] == 0  # one machine, one clock
        assert span.end_time_unix_nano - span.start_time_unix_nano == record.verify_ns
        names = [event.name for event in span.events]
        assert names == (["commit"] if record.num_proposed else ["fallback", "commit"])


def test_a_verification_links_to_the_speculations_it_consumed(traced: Traced) -> None:
    speculations = {span.span_id: span for span in traced.spans("ssd.speculate", "ssd-drafter")}
    linked = 0
    for span, record in zip(traced.spans("ssd.verify"), traced.completion.rounds, strict=True):
        assert bool(span.links) == bool(record.verified_steps)
        for link in span.links:
            assert link.trace_id.hex() == TRACE_ID
            speculation = speculations[link.span_id]
            assert speculation.start_time_unix_nano < span.start_time_unix_nano
            assert attributes(speculation)["ssd.base_len"] <= record.base_len  # type: ignore[operator]
            linked += 1
    assert linked > 0


def test_the_drafter_works_while_the_verifier_verifies(traced: Traced) -> None:
    """And as much of the time as the request's own figure says."""
    verifies = [times(span) for span in traced.spans("ssd.verify")]
    steps = [step for span in traced.spans("ssd.speculate") for step in growth_steps(span)]
    first, last = verifies[0][0], verifies[-1][1]
    inside = [step for step in steps if step[0] >= first and step[1] <= last]
    shared = sum(
        max(min(end, step_end) - max(start, step_start), 0)
        for start, end in verifies
        for step_start, step_end in inside
    )
    overlap = shared / sum(end - start for start, end in inside)
    assert overlap > 0
    assert overlap == pytest.approx(attributes(traced.root)["ssd.overlap"], abs=0.05)


def test_the_metric_counts_every_step_of_both_requests(traced: Traced) -> None:
    """Those before a first verification too, which a request's own figure leaves out."""
    requests = traced.unsampled, traced.completion
    rounds = [each for request in requests for each in request.rounds]
    growth = [each for request in requests for each in request.growth]
    assert traced.overlap_ratio == pytest.approx(overlap_of(rounds, growth), abs=0.02)


def test_a_speculation_shows_what_happened_to_it(traced: Traced) -> None:
    events = [event for span in traced.spans("ssd.speculate") for event in span.events]
    assert {"branch pushed", "commit"} <= {event.name for event in events}


def test_the_root_speaks_the_genai_conventions(traced: Traced) -> None:
    known = {
        value
        for module in (gen_ai_attributes, error_attributes)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    for _, span in traced.receiver.spans:
        for each in span.attributes:
            assert each.key.startswith("ssd.") or each.key in known, each.key
    found = attributes(traced.root)
    assert found["gen_ai.operation.name"] == "text_completion"
    assert found["gen_ai.provider.name"] == "ssd"
    assert found["gen_ai.response.finish_reasons"] == ["length"]
    assert found["gen_ai.usage.input_tokens"] == traced.completion.num_prompt_tokens
    assert found["gen_ai.usage.output_tokens"] == NUM_TOKENS
    assert found["gen_ai.response.id"] == traced.completion.request_id


def test_what_was_exported_survives_the_json_form(traced: Traced) -> None:
    document = as_json(traced.receiver.requests)
    merged = ExportRequest()
    for request in traced.receiver.requests:
        merged.MergeFrom(request)
    for resource_spans in document["resourceSpans"]:
        for scope_spans in resource_spans["scopeSpans"]:
            for span in scope_spans["spans"]:
                assert span["traceId"] == TRACE_ID
                for record in (span, *span.get("links", [])):
                    for name in ("traceId", "spanId", "parentSpanId"):
                        if name in record:  # protobuf's own JSON form writes bytes in base64
                            raw = bytes.fromhex(record[name])
                            record[name] = base64.b64encode(raw).decode()
    assert ParseDict(document, ExportRequest()) == merged


def test_top_shows_every_process(traced: Traced) -> None:
    for word in ("requests", "speculation", "workers", "verifier-0", "drafter-0", "overlap"):
        assert word in traced.top


def times(span: trace_pb2.Span) -> tuple[int, int]:
    return span.start_time_unix_nano, span.end_time_unix_nano


def growth_steps(span: trace_pb2.Span) -> list[tuple[int, int]]:
    """When the forwards of a speculation ran."""
    found = attributes(span)
    starts, durations = found["ssd.step.starts_us"], found["ssd.step.durations_us"]
    assert isinstance(starts, list)
    assert isinstance(durations, list)
    begin = span.start_time_unix_nano
    return [
        (begin + start * 1000, begin + (start + duration) * 1000)
        for start, duration in zip(starts, durations, strict=True)
    ]
