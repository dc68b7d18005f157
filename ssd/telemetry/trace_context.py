"""Where a request stands in its trace, and the ids that all processes derive alike.

A request's context travels as the W3C `traceparent` of its root span, in the messages that open its
session. The spans below it are made in three processes, which link to one another's without having
exchanged a word about them: a span's id is a hash of its root and of what it stands for.

    <request>                       coordinator, SERVER
    ├── ssd.queue                   coordinator
    ├── ssd.prefill                 verifier, and each drafter
    └── ssd.decode                  coordinator
        ├── ssd.verify              verifier; one per round
        └── ssd.speculate           drafter; one per committed length that it drafted for
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from opentelemetry.trace import SpanContext, TraceFlags, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ssd.core.ids import Epoch

_HEADER = "traceparent"
_PROPAGATOR = TraceContextTextMapPropagator()

FULL_TOKENS = 512
BLOCK_TOKENS = 32
ONE_BLOCK_IN = 16


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """The spans of one request."""

    root: SpanContext

    @property
    def trace_id(self) -> str:
        """As logs and Jaeger write it."""
        return f"{self.root.trace_id:032x}"

    @property
    def is_sampled(self) -> bool:
        return self.root.trace_flags.sampled

    @property
    def decode(self) -> SpanContext:
        return self._derived("decode")

    def verify(self, epoch: Epoch, base_len: int) -> SpanContext:
        """The verification of what followed a text of this length."""
        return self._derived(f"verify/{epoch}/{base_len}")

    def speculate(self, epoch: Epoch, base_len: int, life: int) -> SpanContext:
        """What one life of a drafter grew below a text of this length."""
        return self._derived(f"speculate/{epoch}/{base_len}/{life}")

    def _derived(self, what: str) -> SpanContext:
        seed = f"{self.root.trace_id:032x}{self.root.span_id:016x}/{what}"
        span_id = int.from_bytes(blake2b(seed.encode(), digest_size=8).digest()) or 1
        return SpanContext(self.root.trace_id, span_id, is_remote=True, trace_flags=_flags(self))


def _flags(trace: RequestTrace) -> TraceFlags:
    return trace.root.trace_flags


def has_spans(base_len: int, prompt_len: int) -> bool:
    """Whether the round at this length, and what was drafted for it, get spans.

    The first tokens of an answer do, then those of one block in so many: whole blocks, so that a
    round and the speculation before it come together. All processes decide alike.
    """
    if base_len - prompt_len < FULL_TOKENS:
        return True
    return base_len // BLOCK_TOKENS % ONE_BLOCK_IN == 0


def format_traceparent(context: SpanContext) -> str:
    """The W3C header of a span."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def parse_traceparent(header: str) -> RequestTrace | None:
    """None where there is no header, or none that could be read."""
    if not header:
        return None
    context = _PROPAGATOR.extract({_HEADER: header})
    root = get_current_span(context).get_span_context()
    return RequestTrace(root) if root.is_valid else None


def traceparent_of(metadata: Mapping[str, str | bytes]) -> str:
    """The header that came with a call, empty without one."""
    header = metadata.get(_HEADER, "")
    return header if isinstance(header, str) else ""
