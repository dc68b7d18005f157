"""A drafter's spans: a prefill and its speculations per request, and the steps requests shared.

Made on the event loop from what it passes on anyway, and only once the request has ended here:
while it runs, the time is its own. Without tracing there is no such object.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from opentelemetry.trace import SpanContext

from ssd.core.ids import SessionId
from ssd.core.messages import Close, Commit, Grow, Need, Open, Refused
from ssd.core.rounds import GrowthSpan, life_of
from ssd.telemetry.process_trace import ProcessTrace
from ssd.telemetry.trace_context import RequestTrace, has_spans, parse_traceparent
from ssd.telemetry.tracing import Attributes, SpanEvent, SpanRecord, Tracing

_SHARED_AFTER = 64  # steps later, all sessions of a step have reported it
SessionKey = tuple[str, SessionId]


@dataclass(slots=True)
class _Speculation:
    """The growth steps for one committed text, so far."""

    base_len: int
    context: SpanContext
    steps: list[GrowthSpan] = field(default_factory=list)
    events: list[SpanEvent] = field(default_factory=list)


@dataclass(slots=True)
class _Session:
    """A sampled request while it is open here."""

    trace: RequestTrace
    opening: Open
    opened_ns: int
    num_rows: int = 0
    is_prefilled: bool = False
    speculation: _Speculation | None = None
    done: list[_Speculation] = field(default_factory=list)  # that will have a span


@dataclass(slots=True)
class _Step:
    span: GrowthSpan
    serves: list[SpanContext] = field(default_factory=list)
    num_rows: int = 0


class DraftSpans:
    """Follows the sampled sessions of one drafter."""

    def __init__(self, tracing: Tracing, *, now_ns: Callable[[], int]) -> None:
        self._tracing = tracing
        self._now_ns = now_ns
        self._process = ProcessTrace(tracing)
        self._sessions: dict[SessionKey, _Session] = {}
        self._steps: OrderedDict[int, _Step] = OrderedDict()

    def opened(self, opening: Open, peer: str) -> None:
        self._end((peer, opening.session_id))
        trace = parse_traceparent(opening.traceparent)
        if trace is not None and trace.is_sampled:
            self._tracing.set_clock()
            session = _Session(trace, opening, self._now_ns())
            self._sessions[peer, opening.session_id] = session

    def committed(self, message: Commit, peer: str) -> None:
        session = self._sessions.get((peer, message.session_id))
        if session is not None and session.speculation is not None:
            event = SpanEvent("commit", self._now_ns(), {"ssd.tokens": len(message.token_ids)})
            session.speculation.events.append(event)

    def closed(self, message: Close, peer: str) -> None:
        self._end((peer, message.session_id))

    def peer_lost(self, peer: str) -> None:
        for key in [each for each in self._sessions if each[0] == peer]:
            self._end(key)

    def reported(self, peer: str, message: object) -> None:
        """What the engine says to a verifier."""
        if not self._sessions:
            return
        match message:
            case Grow():
                session = self._sessions.get((peer, message.session_id))
                if session is not None:
                    self._grew(session, message)
            case Need():
                self._note((peer, message.session_id), "resync", {"ssd.from_len": message.from_len})
            case Refused():
                self._note((peer, message.session_id), "refused", {"ssd.kind": message.kind})

    def close(self) -> None:
        """The process ends."""
        for key in list(self._sessions):
            self._end(key)
        self._share_steps(0)
        self._process.close()

    def _note(self, key: SessionKey, name: str, attributes: Attributes) -> None:
        session = self._sessions.get(key)
        if session is not None and session.speculation is not None:
            session.speculation.events.append(SpanEvent(name, self._now_ns(), attributes))

    def _grew(self, session: _Session, message: Grow) -> None:
        for span in message.spans:
            self._ran(session, span)
        if session.speculation is not None and message.expansions:
            pushed = {
                "ssd.expansions": len(message.expansions),
                "ssd.exhausted": message.is_exhausted,
            }
            session.speculation.events.append(SpanEvent("branch pushed", self._now_ns(), pushed))

    def _ran(self, session: _Session, span: GrowthSpan) -> None:
        session.num_rows += span.num_rows
        if not session.is_prefilled:
            self._prefilled(session, span)
            if not session.is_prefilled:
                return
        current = session.speculation
        if current is None or current.base_len != span.base_len:
            self._end_speculation(session)
            current = session.speculation = _Speculation(
                span.base_len,
                session.trace.speculate(session.opening.epoch, span.base_len, life_of(span.step)),
            )
        current.steps.append(span)
        if has_spans(span.base_len, session.opening.prompt_len):
            step = self._steps.setdefault(span.step, _Step(span))
            step.serves.append(current.context)
            step.num_rows += span.num_rows
            self._share_steps(_SHARED_AFTER)

    def _prefilled(self, session: _Session, span: GrowthSpan) -> None:
        """The prefill has ended once as many rows ran as the text has tokens."""
        num_tokens = len(session.opening.token_ids)
        if session.num_rows < num_tokens:
            return
        session.is_prefilled = True
        self._tracing.add(
            SpanRecord(
                "ssd.prefill",
                session.opened_ns,
                max(span.end_ns, session.opened_ns),
                parent=session.trace.root,
                attributes={
                    **_session_attributes(session.opening),
                    "ssd.prefill.tokens": num_tokens,
                },
            )
        )

    def _end(self, key: SessionKey) -> None:
        session = self._sessions.pop(key, None)
        if session is None:
            return
        self._end_speculation(session)
        longest_base = 0
        for each in session.done:
            is_again = each.base_len <= longest_base  # after a resync: its id is taken
            longest_base = max(longest_base, each.base_len)
            self._add(session, each, None if is_again else each.context)

    def _end_speculation(self, session: _Session) -> None:
        """The committed text has grown: what follows is the next one."""
        done, session.speculation = session.speculation, None
        if done is not None and has_spans(done.base_len, session.opening.prompt_len):
            session.done.append(done)

    def _add(self, session: _Session, done: _Speculation, context: SpanContext | None) -> None:
        start_ns = done.steps[0].start_ns
        self._tracing.add(
            SpanRecord(
                "ssd.speculate",
                start_ns,
                max(each.end_ns for each in done.steps),
                parent=session.trace.decode,
                context=context,
                attributes={
                    **_session_attributes(session.opening),
                    "ssd.base_len": done.base_len,
                    "ssd.growth_steps": len(done.steps),
                    "ssd.rows": sum(each.num_rows for each in done.steps),
                    # A speculation has pauses; these say when a forward really ran.
                    "ssd.step.starts_us": [_us(each.start_ns - start_ns) for each in done.steps],
                    "ssd.step.durations_us": [
                        _us(each.end_ns - each.start_ns) for each in done.steps
                    ],
                },
                events=done.events,
            )
        )

    def _share_steps(self, num_kept: int) -> None:
        """Forwards that served several requests become spans of the process's trace."""
        while len(self._steps) > num_kept:
            number, step = self._steps.popitem(last=False)
            if len(step.serves) > 1:
                self._process.add_step(
                    step.span.start_ns,
                    step.span.end_ns,
                    serves=step.serves,
                    attributes={
                        "ssd.step": number,
                        "ssd.batch_rows": step.num_rows,
                        "ssd.sessions": len(step.serves),
                    },
                )


def _session_attributes(opening: Open) -> Attributes:
    return {"ssd.session_id": opening.session_id, "ssd.epoch": opening.epoch}


def _us(duration_ns: int) -> int:
    return round(duration_ns / 1000)
