"""A peer's times on our clock."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ssd.core.clock_offset import ClockSample
from ssd.core.rounds import GrowthSpan


def offset_of(samples: Iterable[ClockSample]) -> int | None:
    """The peer's clock minus ours in nanoseconds, by the quickest heartbeat; None without any.

    An offset within the round trip cannot be told from none: two processes of one machine share
    the clock, and it is 0.
    """
    best = min(samples, key=lambda each: each.round_trip_ns, default=None)
    if best is None:
        return None
    return 0 if abs(best.offset_ns) <= best.round_trip_ns else best.offset_ns


def on_our_clock(spans: Sequence[GrowthSpan], offset_ns: int) -> tuple[GrowthSpan, ...]:
    """Growth steps timed by a peer whose clock is ours plus the offset."""
    return tuple(
        replace(each, start_ns=each.start_ns - offset_ns, end_ns=each.end_ns - offset_ns)
        for each in spans
    )
