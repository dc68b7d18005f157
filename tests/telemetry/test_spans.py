"""Spans that workers make of their messages, without any process."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ssd.core.errors import ConfigError
from ssd.core.ids import Epoch, PrefixKey, SessionId
from ssd.core.messages import Close, Commit, Finished, FinishReason, Grow, Need, Open
from ssd.core.rounds import STEPS_PER_LIFE, GrowthSpan, Lookup, RoundRecord
from ssd.telemetry.draft_spans import DraftSpans
from ssd.telemetry.tracing import Tracing, make_tracing
from ssd.telemetry.verify_spans import VerifySpans

MS = 1_000_000
HEADER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LIFE = 3 * STEPS_PER_LIFE


class Exported:
    """A tracing whose spans stay here."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracing = Tracing(self._exporter, service="ssd-test", instance="test-0")

    def named(self, name: str) -> list[ReadableSpan]:
        self.tracing.close()
        return [each for each in self._exporter.get_finished_spans() if each.name == name]


@pytest.fixture
def exported() -> Iterator[Exported]:
    made = Exported()
    yield made
    made.tracing.close()


def opening(name: str = "a", *, traceparent: str = HEADER, num_tokens: int = 4) -> Open:
    return Open(
        SessionId(name),
        Epoch(1),
        token_ids=tuple(range(num_tokens)),
        prompt_len=num_tokens,
        max_len=5000,
        traceparent=traceparent,
    )


def commit(
    name: str, base_len: int, *, steps: tuple[int, ...] = (), growth: tuple[GrowthSpan, ...] = ()
) -> Commit:
    record = RoundRecord(
        round_id=base_len,
        base_len=base_len,
        launch_ns=base_len * 10 * MS,
        end_ns=(base_len * 10 + 8) * MS,
        wait_ns=MS,
        num_proposed=2,
        num_accepted=1,
        num_tested=1,
        num_batch_rows=6,
        lookup=Lookup.HIT,
        verified_steps=steps,
    )
    return Commit(
        SessionId(name), Epoch(1), base_len, PrefixKey(0), (1, 2), record=record, growth=growth
    )


def step(number: int, base_len: int, start_ms: int, *, rows: int = 1) -> GrowthSpan:
    return GrowthSpan(LIFE + number, base_len, start_ms * MS, (start_ms + 2) * MS, rows)


def grow(name: str, *spans: GrowthSpan) -> Grow:
    return Grow(SessionId(name), Epoch(1), spans[-1].base_len, expansions=(), spans=spans)


def verifier(exported: Exported) -> VerifySpans:
    return VerifySpans(exported.tracing, now_ns=lambda: 30 * MS, offset_ns=lambda: None)


def drafter(exported: Exported) -> DraftSpans:
    return DraftSpans(exported.tracing, now_ns=lambda: 30 * MS)


def test_a_request_that_is_not_sampled_makes_no_span(exported: Exported) -> None:
    verify, draft = verifier(exported), drafter(exported)
    for header in ("", HEADER[:-1] + "0"):
        verify.opened(opening(traceparent=header))
        verify.reported([commit("a", 4)])
        draft.opened(opening(traceparent=header), "v1")
        draft.reported("v1", grow("a", step(1, 4, 30, rows=9)))
        draft.closed(Close(SessionId("a"), Epoch(1)), "v1")
    assert not exported.named("ssd.verify")
    assert not exported.named("ssd.speculate")


def test_the_links_of_one_process_are_the_ids_of_the_other(exported: Exported) -> None:
    verify, draft = verifier(exported), drafter(exported)
    growth = (step(1, 4, 32, rows=5), step(2, 4, 34), step(3, 6, 42))
    draft.opened(opening(), "v1")
    draft.reported("v1", grow("a", *growth))
    draft.closed(Close(SessionId("a"), Epoch(1)), "v1")
    verify.opened(opening())
    verify.reported([commit("a", 4, growth=growth)])
    verify.reported([commit("a", 6, steps=(LIFE + 2, LIFE + 3))])
    verify.closed(Close(SessionId("a"), Epoch(1)))
    speculations = {each.context.span_id: each for each in exported.named("ssd.speculate")}
    assert len(speculations) == 2
    first, second = exported.named("ssd.verify")
    assert not first.links
    assert {each.context.span_id for each in second.links} == set(speculations)
    parents = {each.parent.span_id for each in (first, second) if each.parent}
    assert parents == {each.parent.span_id for each in speculations.values() if each.parent}


def test_a_long_answer_has_fewer_spans_than_rounds(exported: Exported) -> None:
    verify = verifier(exported)
    verify.opened(opening())
    for base_len in range(4, 4 + 4000, 2):
        verify.reported([commit("a", base_len)])
    verify.reported([Finished(SessionId("a"), Epoch(1), 4004, FinishReason.LENGTH)])
    verify.reported([commit("a", 4004)])  # nobody asks any more
    num_spans = len(exported.named("ssd.verify"))
    assert 256 < num_spans < 256 + 2000 // 8


def test_a_forward_that_two_requests_shared_is_a_span_of_the_process(exported: Exported) -> None:
    verify = verifier(exported)
    other = HEADER.replace("0af7", "1af7")
    verify.opened(opening("a"))
    verify.opened(opening("b", traceparent=other))
    verify.reported([commit("a", 4), commit("b", 4)])
    verify.close()
    (shared,) = exported.named("ssd.engine.step")
    (minute,) = exported.named("ssd.engine")
    rounds = exported.named("ssd.verify")
    assert shared.parent is not None
    assert shared.parent.span_id == minute.context.span_id
    assert {each.context.span_id for each in shared.links} == {
        each.context.span_id for each in rounds
    }
    for each in rounds:
        assert [link.context.span_id for link in each.links] == [shared.context.span_id]
    assert len({each.context.trace_id for each in rounds}) == 2


def test_a_growth_step_of_two_requests_is_a_span_of_the_process(exported: Exported) -> None:
    draft = drafter(exported)
    for name in ("a", "b"):
        draft.opened(opening(name), "v1")
        draft.reported("v1", grow(name, step(1, 4, 32, rows=5)))
    draft.close()
    (shared,) = exported.named("ssd.engine.step")
    assert len(shared.links) == 2
    assert shared.attributes is not None
    assert shared.attributes["ssd.batch_rows"] == 10


def test_a_prefill_in_chunks_ends_with_the_last(exported: Exported) -> None:
    draft = drafter(exported)
    draft.opened(opening(num_tokens=600), "v1")
    draft.reported("v1", grow("a", step(1, 600, 32, rows=256), step(2, 600, 36, rows=256)))
    draft.reported("v1", grow("a", step(3, 600, 40, rows=90), step(4, 600, 44)))
    draft.closed(Close(SessionId("a"), Epoch(1)), "v1")
    (prefill,) = exported.named("ssd.prefill")
    (speculate,) = exported.named("ssd.speculate")
    assert prefill.end_time is not None
    assert prefill.start_time is not None
    assert prefill.end_time - prefill.start_time == 12 * MS  # from 30, when it was opened
    assert speculate.attributes is not None
    assert speculate.attributes["ssd.growth_steps"] == 2


def test_a_resync_shows_and_no_id_comes_twice(exported: Exported) -> None:
    draft = drafter(exported)
    draft.opened(opening(), "v1")
    draft.reported("v1", grow("a", step(1, 4, 32, rows=5)))
    draft.reported("v1", Need(SessionId("a"), Epoch(1), from_len=4))
    draft.reported("v1", grow("a", step(2, 6, 36), step(3, 4, 40)))
    draft.closed(Close(SessionId("a"), Epoch(1)), "v1")
    spans = exported.named("ssd.speculate")
    assert "resync" in [event.name for each in spans for event in each.events]
    assert len({each.context.span_id for each in spans}) == len(spans) == 3


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
    ],
)
def test_nothing_is_set_up_unless_asked_for(environ: dict[str, str]) -> None:
    assert make_tracing(environ, service="ssd-test", instance="test-0") is None


def test_an_exporter_that_is_not_here_is_named() -> None:
    with pytest.raises(ConfigError, match="must be otlp, console or none, not zipkin"):
        make_tracing({"OTEL_TRACES_EXPORTER": "zipkin"}, service="ssd-test", instance="test-0")
