"""A request's spans in the coordinator, without any process."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from coordinator.request_telemetry import RequestTelemetry
from ssd.core.client_session import Admission, ClientSession
from ssd.core.errors import NoCapacity
from ssd.core.ids import SessionId
from ssd.core.messages import Commit
from ssd.core.mode import Mode
from ssd.core.sampling_params import SamplingParams
from ssd.telemetry.request_metrics import RequestMetrics, TableFacts
from tests.telemetry.test_spans import HEADER, Exported, commit

HEADERS = {"traceparent": HEADER}


@pytest.fixture
def exported() -> Iterator[Exported]:
    made = Exported()
    yield made
    made.tracing.close()


@pytest.fixture
def telemetry(exported: Exported) -> RequestTelemetry:
    return RequestTelemetry(RequestMetrics(lambda: TableFacts(0, 0, 0, 0)), exported.tracing)


def books() -> ClientSession:
    admission = Admission(
        session_id=SessionId("a"),
        prompt_token_ids=(1, 2, 3, 4),
        max_len=10,
        params=SamplingParams(temperature=0.5, seed=2**64 - 1),
        stop_token_ids=frozenset(),
        mode=Mode.SSD,
    )
    return ClientSession(admission)


def one(spans: list[ReadableSpan]) -> ReadableSpan:
    assert len(spans) == 1
    return spans[0]


def test_a_refused_request_is_an_error_with_its_name(
    exported: Exported, telemetry: RequestTelemetry
) -> None:
    with telemetry.watched(HEADERS) as watch:
        watch.failed(NoCapacity("4 sessions run and 8 requests wait"))
    root = one(exported.named("text_completion"))
    assert root.kind is SpanKind.SERVER
    assert root.status.status_code is StatusCode.ERROR
    assert root.attributes is not None
    assert root.attributes["error.type"] == "NoCapacity"


def test_a_client_that_leaves_in_the_queue_had_no_turn(
    exported: Exported, telemetry: RequestTelemetry
) -> None:
    with telemetry.watched(HEADERS) as watch:
        watch.model_name = "tiny"
        watch.admitted(books())
    queue, root = one(exported.named("ssd.queue")), one(exported.named("text_completion tiny"))
    assert queue.attributes == {"ssd.had_turn": False}
    assert root.attributes is not None
    assert root.attributes["error.type"] == "cancelled"
    assert root.attributes["gen_ai.request.seed"] == str(2**64 - 1)


def test_decoding_begins_with_the_first_launch_whatever_clock_the_verifier_has(
    exported: Exported, telemetry: RequestTelemetry
) -> None:
    with telemetry.watched(HEADERS) as watch:
        session = books()
        watch.admitted(session)
        watch.turn_came()
        watch.placed(session.open(), "verifier-0")
        message: Commit = commit("a", 4)  # launched 40 ms after the verifier's machine was started
        watch.committed(message)
        assert message.record is not None
        session.rounds.append(message.record)
    decode = one(exported.named("ssd.decode"))
    root = one(exported.named("text_completion"))
    assert root.start_time is not None
    assert decode.start_time is not None
    assert root.start_time <= decode.start_time
    assert [event.name for event in decode.events] == ["placed"]
    assert decode.attributes == {"ssd.rounds": 1, "ssd.rounds.with_span": 1}


def test_the_answers_of_one_call_are_below_its_span(
    exported: Exported, telemetry: RequestTelemetry
) -> None:
    with telemetry.watched(HEADERS) as call:
        call.model_name, call.operation = "tiny", "chat"
        for _ in range(2):
            with telemetry.watched_answer(call) as watch:
                watch.admitted(books())
    roots = exported.named("chat tiny")
    assert len(roots) == 3
    parents = [each.parent.span_id for each in roots if each.parent is not None]
    assert parents[0] == parents[1] == roots[2].context.span_id


def test_an_unsampled_request_makes_no_span_and_still_has_its_id_in_the_log(
    exported: Exported, telemetry: RequestTelemetry
) -> None:
    with telemetry.watched({"traceparent": HEADER[:-1] + "0"}) as watch:
        watch.admitted(books())
        assert watch.names == {"trace_id": HEADER[3:35], "session_id": "a"}
        assert watch.traceparent.endswith("-00")
    assert not exported.named("text_completion")
    assert not exported.named("ssd.queue")
