"""Times of a peer on our clock."""

from ssd.core.clock_offset import ClockSample
from ssd.core.peer_clock import offset_of, on_our_clock
from ssd.core.rounds import GrowthSpan

HOUR = 3600 * 10**9


def heartbeat(*, offset: int, there: int, back: int) -> ClockSample:
    return ClockSample(1_000, 1_000 + there + offset, 1_000 + there + offset, 1_000 + there + back)


def test_without_heartbeats_nothing_is_known() -> None:
    assert offset_of([]) is None


def test_the_quickest_heartbeat_says_the_offset() -> None:
    samples = [
        heartbeat(offset=HOUR, there=900_000, back=100_000),
        heartbeat(offset=HOUR, there=110_000, back=90_000),
    ]
    assert offset_of(samples) == HOUR + 10_000


def test_one_machine_has_one_clock() -> None:
    assert offset_of([heartbeat(offset=0, there=900_000, back=100_000)]) == 0


def test_a_peer_behind_us_is_moved_forward() -> None:
    span = GrowthSpan(step=7, base_len=3, start_ns=50, end_ns=60, num_rows=2)
    moved = on_our_clock([span], -HOUR)[0]
    assert (moved.start_ns, moved.end_ns) == (HOUR + 50, HOUR + 60)
    assert (moved.step, moved.base_len, moved.num_rows) == (7, 3, 2)
