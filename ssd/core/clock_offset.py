"""Two processes' monotonic clocks compared by the four times of a heartbeat, as NTP does.

here   origin ─────────────────────── arrival
              ╲                     ╱
there          receive ── transmit
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClockSample:
    """One heartbeat: `origin` and `arrival` on our clock, the other two on the peer's."""

    origin_ns: int
    receive_ns: int
    transmit_ns: int
    arrival_ns: int

    @property
    def round_trip_ns(self) -> int:
        """Time on the way, there and back; the peer's own time is not part of it."""
        return (self.arrival_ns - self.origin_ns) - (self.transmit_ns - self.receive_ns)

    @property
    def offset_ns(self) -> int:
        """What to add to our clock to get the peer's; wrong by at most half the round trip."""
        there, back = self.receive_ns - self.origin_ns, self.transmit_ns - self.arrival_ns
        return (there + back) // 2
