"""A request's spans in the coordinator: the root, its time in the queue, and its decoding."""

from collections.abc import Sequence

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from coordinator.request_watch import RequestWatch
from ssd.core.client_session import ClientSession
from ssd.core.rounds import Lookup, figures_of
from ssd.telemetry.trace_context import RequestTrace, has_spans, parse_traceparent
from ssd.telemetry.tracing import Attributes, SpanRecord, Tracing

_PROVIDER = "ssd"
_SAME_CLOCK_NS = 50_000_000  # further apart, the verifier's clock is another machine's


class RequestSpans:
    """The spans of one request; made when the call comes, finished when it ends."""

    def __init__(self, tracing: Tracing, watch: RequestWatch, traceparent: str) -> None:
        tracing.set_clock()
        caller = parse_traceparent(traceparent)
        self._tracing = tracing
        self._watch = watch
        self._root = tracing.start(
            watch.operation,
            watch.received_ns,
            parent=None if caller is None else caller.root,
            kind=SpanKind.SERVER,
        )
        self.trace = RequestTrace(self._root.get_span_context())

    def end(self, ended_ns: int) -> None:
        """Export everything about the request, if it is sampled."""
        if self._root.is_recording():
            self._describe(self._root)
            self._add_queue()
            self._add_decode(ended_ns)
        self._tracing.end(self._root, ended_ns)

    def _describe(self, root: Span) -> None:
        watch = self._watch
        root.update_name(watch.operation)
        root.set_attributes({gen_ai.GEN_AI_OPERATION_NAME: watch.operation})
        root.set_attributes({gen_ai.GEN_AI_PROVIDER_NAME: _PROVIDER})
        if watch.model_name:
            root.update_name(f"{watch.operation} {watch.model_name}")
            root.set_attributes(
                {
                    gen_ai.GEN_AI_REQUEST_MODEL: watch.model_name,
                    gen_ai.GEN_AI_RESPONSE_MODEL: watch.model_name,
                }
            )
        if watch.books is not None:
            root.set_attributes(_request_attributes(watch.books))
            root.set_attributes(_figures(watch.books))
        if watch.error is not None:
            root.set_attribute(ERROR_TYPE, type(watch.error).__name__)
            root.set_status(Status(StatusCode.ERROR, str(watch.error)))
        elif watch.outcome == "cancelled":
            root.set_attribute(ERROR_TYPE, "cancelled")

    def _add_queue(self) -> None:
        watch = self._watch
        if watch.admitted_ns is None:
            return
        end_ns = watch.turn_ns if watch.turn_ns is not None else watch.ended_ns
        self._tracing.add(
            SpanRecord(
                "ssd.queue",
                watch.admitted_ns,
                end_ns or watch.admitted_ns,
                parent=self.trace.root,
                attributes={"ssd.had_turn": watch.turn_ns is not None},
            )
        )

    def _add_decode(self, ended_ns: int) -> None:
        """From the first launch; the placing on a verifier, first or again, are its events."""
        watch = self._watch
        if watch.books is None or not watch.books.rounds:
            return
        self._tracing.add(
            SpanRecord(
                "ssd.decode",
                self._first_launch_ns(watch.books),
                ended_ns,
                parent=self.trace.root,
                context=self.trace.decode,
                attributes=_round_spans(watch.books),
                events=watch.events,
            )
        )

    def _first_launch_ns(self, books: ClientSession) -> int:
        """When decoding began, on our clock, whatever clock the verifier has."""
        watch = self._watch
        offset_ns = watch.verifier_offset_ns or 0
        if abs(offset_ns) < _SAME_CLOCK_NS:
            offset_ns = 0  # it is delay, not another clock
        start_ns = books.rounds[0].launch_ns + offset_ns
        return min(max(start_ns, watch.received_ns), watch.first_token_ns or start_ns)


def _request_attributes(books: ClientSession) -> dict[str, AttributeValue]:
    admission = books.admission
    params = admission.params
    attributes: dict[str, AttributeValue] = {
        gen_ai.GEN_AI_RESPONSE_ID: admission.session_id,
        gen_ai.GEN_AI_REQUEST_MAX_TOKENS: admission.max_len - books.prompt_len,
        gen_ai.GEN_AI_REQUEST_TEMPERATURE: params.temperature,
        gen_ai.GEN_AI_REQUEST_TOP_P: params.top_p,
        gen_ai.GEN_AI_REQUEST_SEED: str(params.seed),  # beyond what a signed integer holds
        gen_ai.GEN_AI_REQUEST_STREAM: True,
        gen_ai.GEN_AI_USAGE_INPUT_TOKENS: books.prompt_len,
        gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS: books.output_len,
        "ssd.mode": admission.mode.value,
    }
    if params.top_k:
        attributes[gen_ai.GEN_AI_REQUEST_TOP_K] = params.top_k
    if books.finish_reason is not None:
        attributes[gen_ai.GEN_AI_RESPONSE_FINISH_REASONS] = [books.finish_reason.value]
    return attributes


def _figures(books: ClientSession) -> Attributes:
    figures = figures_of(books.rounds, books.growth, num_tokens=books.output_len)
    return {
        "ssd.rounds": figures.num_rounds,
        "ssd.tokens_per_round": figures.tokens_per_round,
        "ssd.acceptance": figures.acceptance,
        "ssd.hit_rate": figures.hit_rate,
        "ssd.missed.late": figures.misses[Lookup.MISS_LATE],
        "ssd.missed.key": figures.misses[Lookup.MISS_KEY],
        "ssd.missed.absent": figures.misses[Lookup.MISS_ABSENT],
        "ssd.verifier_busy": figures.busy,
        "ssd.overlap": figures.overlap,
        "ssd.useful_overlap": figures.useful_overlap,
    }


def _round_spans(books: ClientSession) -> Attributes:
    """How many rounds there were, and how many of them have a span."""
    bases: Sequence[int] = [each.base_len for each in books.rounds]
    num_spans = sum(has_spans(base, books.prompt_len) for base in bases)
    return {"ssd.rounds": len(bases), "ssd.rounds.with_span": num_spans}
