"""Who is told what passes through a drafter: its figures, and its spans where traces are wanted.

Everything here runs on the event loop; the engine's thread knows nothing of it.
"""

import time
from dataclasses import dataclass

from ssd.core.messages import Close, Commit, Open
from ssd.telemetry.draft_spans import DraftSpans
from ssd.telemetry.drafter_metrics import DrafterMetrics
from ssd.telemetry.tracing import Tracing


@dataclass(slots=True)
class DrafterTelemetry:
    """One drafter's listeners."""

    metrics: DrafterMetrics
    spans: DraftSpans | None

    def ordered(self, peer: str, order: object) -> None:
        """What a verifier wants."""
        if self.spans is None:
            return
        match order:
            case Open():
                self.spans.opened(order, peer)
            case Commit():
                self.spans.committed(order, peer)
            case Close():
                self.spans.closed(order, peer)

    def reported(self, peer: str, report: object) -> None:
        """What the engine says to a verifier."""
        self.metrics.reported(report)
        if self.spans is not None:
            self.spans.reported(peer, report)

    def peer_lost(self, peer: str) -> None:
        """A verifier's stream ended, and its sessions with it."""
        if self.spans is not None:
            self.spans.peer_lost(peer)

    def close(self) -> None:
        if self.spans is not None:
            self.spans.close()


def make_telemetry(metrics: DrafterMetrics, tracing: Tracing | None) -> DrafterTelemetry:
    """Spans only where there is a way out for them."""
    spans = None if tracing is None else DraftSpans(tracing, now_ns=time.monotonic_ns)
    return DrafterTelemetry(metrics, spans)
