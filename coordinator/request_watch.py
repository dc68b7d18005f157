"""What happens to one request, noted for its figures, its trace and its log line.

received ──admitted──▶ queued ──turn──▶ placed* ──committed*──▶ ended

A watch only takes notes; `request_telemetry.py` makes something of them when the request ended.
"""

import time
from dataclasses import replace

import structlog
from opentelemetry.util.types import AttributeValue

from ssd.core.client_session import ClientSession
from ssd.core.errors import SsdError
from ssd.core.messages import Commit, Open
from ssd.telemetry.tracing import SpanEvent


class RequestWatch:
    """Notes of one request; times are nanoseconds of this process's monotonic clock."""

    def __init__(self) -> None:
        self.received_ns = time.monotonic_ns()
        self.admitted_ns: int | None = None
        self.turn_ns: int | None = None
        self.first_token_ns: int | None = None
        self.last_token_ns: int | None = None
        self.ended_ns: int | None = None
        self.books: ClientSession | None = None
        self.error: SsdError | None = None
        self.model_name = ""
        self.operation = "text_completion"  # or chat, in the words of the GenAI conventions
        self.prompt = ""
        self.traceparent = ""  # of the root span, for the messages that open the session
        self.verifier_offset_ns: int | None = None
        """Our clock minus the verifier's, too large by the shortest delay of a commit."""
        self.events: list[SpanEvent] = []

    def admitted(self, books: ClientSession) -> None:
        """It has an id and a place in the queue."""
        self.books = books
        self.admitted_ns = time.monotonic_ns()
        structlog.contextvars.bind_contextvars(session_id=books.admission.session_id)

    def turn_came(self) -> None:
        self.turn_ns = time.monotonic_ns()

    def placed(self, opening: Open, verifier: str) -> Open:
        """It is opened on a verifier, for the first time or again; the order with its trace."""
        attributes: dict[str, AttributeValue] = {
            "ssd.verifier": verifier,
            "ssd.epoch": opening.epoch,
        }
        self.events.append(SpanEvent("placed", time.monotonic_ns(), attributes))
        return replace(opening, traceparent=self.traceparent) if self.traceparent else opening

    def committed(self, commit: Commit) -> None:
        """Tokens entered the books."""
        self.last_token_ns = time.monotonic_ns()
        if commit.record is not None:
            behind_ns = self.last_token_ns - commit.record.end_ns
            if self.verifier_offset_ns is None or behind_ns < self.verifier_offset_ns:
                self.verifier_offset_ns = behind_ns
        if self.first_token_ns is None:
            self.first_token_ns = self.last_token_ns

    def failed(self, error: SsdError) -> None:
        """What the client is told."""
        self.error = error

    @property
    def names(self) -> dict[str, str]:
        """What a log line about the request carries, wherever it is written."""
        names = {"trace_id": self.traceparent[3:35]} if self.traceparent else {}
        if self.books is not None:
            names["session_id"] = self.books.admission.session_id
        return names

    @property
    def outcome(self) -> str:
        """stop or length; else cancelled, by a call or by leaving; else the error's name."""
        if self.error is not None:
            return type(self.error).__name__.lower()
        if self.books is not None and self.books.finish_reason is not None:
            return self.books.finish_reason.value
        return "cancelled"
