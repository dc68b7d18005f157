"""A verifier's spans: a prefill and its rounds per request, and the forwards that requests shared.

Made on the event loop from what it passes on anyway, and only once the request has ended here:
while it runs, the time is its own. Without tracing there is no such object.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from opentelemetry.trace import SpanContext

from ssd.core.ids import SessionId
from ssd.core.messages import Close, Commit, Finished, Open
from ssd.core.rounds import GrowthSpan, RoundRecord, WhyPlain, life_of
from ssd.telemetry.drafter_parts import part_attributes
from ssd.telemetry.process_trace import ProcessTrace
from ssd.telemetry.trace_context import RequestTrace, has_spans, parse_traceparent
from ssd.telemetry.tracing import Attributes, SpanEvent, SpanRecord, Tracing

_SESSIONS_REMEMBERED = 4096  # those whose coordinator was lost end without a word
_STEPS_REMEMBERED = 1024


@dataclass(frozen=True, slots=True)
class _Round:
    """One verification of the session; `shared` is the span of a forward that others were in."""

    commit: Commit
    record: RoundRecord
    links: Sequence[SpanContext]
    shared: SpanContext | None


@dataclass(slots=True)
class _Session:
    """A sampled request while it is open here."""

    trace: RequestTrace
    opening: Open
    opened_ns: int
    is_begun: bool = False
    bases: OrderedDict[int, int] = field(default_factory=OrderedDict)
    """For which committed length a growth step was run."""
    rounds: list[_Round] = field(default_factory=list)  # that will have a span


class VerifySpans:
    """Follows the sampled sessions of one verifier."""

    def __init__(
        self, tracing: Tracing, *, now_ns: Callable[[], int], offset_ns: Callable[[], int | None]
    ) -> None:
        """`offset_ns`: the drafter's clock minus ours, as the heartbeats estimate it."""
        self._tracing = tracing
        self._now_ns = now_ns
        self._offset_ns = offset_ns
        self._process = ProcessTrace(tracing)
        self._sessions: dict[SessionId, _Session] = {}

    def opened(self, opening: Open) -> None:
        self._end(opening.session_id)
        trace = parse_traceparent(opening.traceparent)
        if trace is None or not trace.is_sampled:
            return
        if len(self._sessions) >= _SESSIONS_REMEMBERED:
            self._end(next(iter(self._sessions)))
        self._tracing.set_clock()
        self._sessions[opening.session_id] = _Session(trace, opening, self._now_ns())

    def close(self) -> None:
        """The process ends."""
        for session_id in list(self._sessions):
            self._end(session_id)
        self._process.close()

    def closed(self, message: Close | Finished) -> None:
        self._end(message.session_id)

    def reported(self, messages: Sequence[object]) -> None:
        """What one engine step says to the coordinators."""
        if not self._sessions:
            return
        spanned: list[tuple[_Session, Commit, RoundRecord]] = []
        for each in messages:
            if isinstance(each, Commit) and each.record is not None:
                session = self._sessions.get(each.session_id)
                if session is not None:
                    self._follow(session, each.record, each.growth)
                    if has_spans(each.base_len, session.opening.prompt_len):
                        spanned.append((session, each, each.record))
        self._note_rounds(spanned)
        for each in messages:
            if isinstance(each, Finished):
                self.closed(each)

    def _follow(self, session: _Session, record: RoundRecord, growth: Sequence[GrowthSpan]) -> None:
        """Learn which step drafted for which text; with the first round the prefill has ended."""
        for span in growth:
            session.bases[span.step] = span.base_len
            if len(session.bases) > _STEPS_REMEMBERED:
                session.bases.popitem(last=False)
        if not session.is_begun:
            session.is_begun = True
            opening = session.opening
            self._tracing.add(
                SpanRecord(
                    "ssd.prefill",
                    session.opened_ns,
                    max(record.launch_ns - record.wait_ns, session.opened_ns),
                    parent=session.trace.root,
                    attributes={
                        **_session_attributes(opening),
                        "ssd.prefill.tokens": len(opening.token_ids) - 1,
                    },
                )
            )

    def _note_rounds(self, spanned: Sequence[tuple[_Session, Commit, RoundRecord]]) -> None:
        """A forward that several shared has its span at once: each of theirs links to it."""
        shared = None
        if len(spanned) > 1:
            record = spanned[0][2]
            shared = self._process.add_step(
                record.launch_ns,
                record.end_ns,
                serves=[
                    session.trace.verify(commit.epoch, commit.base_len)
                    for session, commit, _ in spanned
                ],
                attributes={
                    "ssd.step": record.round_id,
                    "ssd.batch_rows": record.num_batch_rows,
                    "ssd.sessions": len(spanned),
                },
            )
        for session, commit, record in spanned:
            links = _speculations(session, commit, record)
            session.rounds.append(_Round(commit, record, links, shared))

    def _end(self, session_id: SessionId) -> None:
        """The session is over here: its rounds become spans."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        offset_ns = self._offset_ns()
        for each in session.rounds:
            record = each.record
            self._tracing.add(
                SpanRecord(
                    "ssd.verify",
                    record.launch_ns,
                    record.end_ns,
                    parent=session.trace.decode,
                    context=session.trace.verify(each.commit.epoch, each.commit.base_len),
                    attributes=_attributes(session, each, offset_ns),
                    links=each.links if each.shared is None else [*each.links, each.shared],
                    events=_events(each.commit, record),
                )
            )


def _attributes(session: _Session, each: _Round, offset_ns: int | None) -> Attributes:
    record = each.record
    clock = {} if offset_ns is None else {"ssd.drafter.clock_offset_ms": offset_ns / 1e6}
    return {
        **_session_attributes(session.opening),
        "ssd.round": record.round_id,
        "ssd.base_len": record.base_len,
        "ssd.nodes": record.num_proposed,
        "ssd.tree_depth": record.tree_depth,
        "ssd.tested": record.num_tested,
        "ssd.accepted": record.num_accepted,
        "ssd.lookup": record.lookup.value,
        "ssd.bonus_token_id": each.commit.token_ids[-1],
        "ssd.wait_ms": record.wait_ns / 1e6,
        "ssd.batch_rows": record.num_batch_rows,
        **part_attributes(record.drafters),
        **clock,
    }


def _session_attributes(opening: Open) -> Attributes:
    return {"ssd.session_id": opening.session_id, "ssd.epoch": opening.epoch}


def _speculations(session: _Session, commit: Commit, record: RoundRecord) -> list[SpanContext]:
    """The spans of the speculations that proposed a node of this round's tree."""
    origins = {
        (session.bases[step], life_of(step))
        for step in record.verified_steps
        if step in session.bases and has_spans(session.bases[step], session.opening.prompt_len)
    }
    return [session.trace.speculate(commit.epoch, base, life) for base, life in sorted(origins)]


def _events(commit: Commit, record: RoundRecord) -> list[SpanEvent]:
    events = []
    if record.why_plain is not None and record.why_plain is not WhyPlain.MODE:
        why = {"ssd.reason": record.why_plain.value}
        events.append(SpanEvent("fallback", record.launch_ns, why))
    events.append(SpanEvent("commit", record.end_ns, {"ssd.tokens": len(commit.token_ids)}))
    return events
