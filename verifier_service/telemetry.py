"""Who is told what passes through a verifier: its figures, and its spans where traces are wanted.

Everything here runs on the event loop; the engine's thread knows nothing of it.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import structlog

from ssd.core.ids import SessionId
from ssd.core.messages import Close, Commit, Finished, Open
from ssd.telemetry.trace_context import parse_traceparent
from ssd.telemetry.tracing import Tracing
from ssd.telemetry.verifier_metrics import VerifierFacts, VerifierMetrics
from ssd.telemetry.verify_spans import VerifySpans

_SESSIONS_REMEMBERED = 4096
log = structlog.get_logger()


class VerifierTelemetry:
    """One verifier's listeners."""

    def __init__(self, metrics: VerifierMetrics, spans: VerifySpans | None) -> None:
        self.metrics = metrics
        self._spans = spans
        self._log = RoundLog() if log.is_enabled_for(logging.DEBUG) else None

    def opened(self, opening: Open) -> None:
        """A coordinator orders a session."""
        self.metrics.opened(opening)
        if self._spans is not None:
            self._spans.opened(opening)
        if self._log is not None:
            self._log.opened(opening)

    def closed(self, message: Close) -> None:
        """A coordinator ends a session."""
        self.metrics.closed(message)
        if self._spans is not None:
            self._spans.closed(message)

    def reported(self, messages: Sequence[object]) -> None:
        """What one engine step says to the coordinators."""
        self.metrics.reported(messages)
        if self._spans is not None:
            self._spans.reported(messages)
        if self._log is not None:
            self._log.reported(messages)

    def close(self) -> None:
        if self._spans is not None:
            self._spans.close()


class RoundLog:
    """A line per session and round, for whoever asked for debug."""

    def __init__(self) -> None:
        self._trace_ids: OrderedDict[SessionId, str | None] = OrderedDict()

    def opened(self, opening: Open) -> None:
        trace = parse_traceparent(opening.traceparent)
        trace_id = self._trace_ids[opening.session_id] = None if trace is None else trace.trace_id
        if len(self._trace_ids) > _SESSIONS_REMEMBERED:
            self._trace_ids.popitem(last=False)
        log.debug(
            "session ordered",
            session_id=opening.session_id,
            trace_id=trace_id,
            epoch=opening.epoch,
            num_tokens=len(opening.token_ids),
        )

    def reported(self, messages: Sequence[object]) -> None:
        for each in messages:
            if isinstance(each, Commit) and each.record is not None:
                log.debug(
                    "round done",
                    session_id=each.session_id,
                    trace_id=self._trace_ids.get(each.session_id),
                    round_id=each.record.round_id,
                    num_accepted=each.record.num_accepted,
                    lookup=each.record.lookup.value,
                )
            elif isinstance(each, Finished):
                log.debug(
                    "session finished",
                    session_id=each.session_id,
                    trace_id=self._trace_ids.pop(each.session_id, None),
                    reason=each.reason.value,
                )


def make_telemetry(
    facts: VerifierFacts, tracing: Tracing | None, *, offset_ns: Callable[[], int | None]
) -> VerifierTelemetry:
    """`offset_ns`: a drafter's clock minus ours, as the heartbeats estimate it."""
    spans = None
    if tracing is not None:
        spans = VerifySpans(tracing, now_ns=time.monotonic_ns, offset_ns=offset_ns)
    return VerifierTelemetry(VerifierMetrics(facts), spans)
