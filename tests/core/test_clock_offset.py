"""Two clocks are compared by a heartbeat's four times."""

from ssd.core.clock_offset import ClockSample


def sample(*, offset_ns: int, there_ns: int, back_ns: int, held_ns: int = 7) -> ClockSample:
    """A heartbeat sent at 1000 of our clock to a peer whose clock shows `offset_ns` more."""
    receive_ns = 1000 + there_ns + offset_ns
    arrival_ns = 1000 + there_ns + held_ns + back_ns
    return ClockSample(1000, receive_ns, receive_ns + held_ns, arrival_ns)


def test_equal_ways_give_the_exact_offset() -> None:
    for offset_ns in (0, 5_000_000, -5_000_000):
        heard = sample(offset_ns=offset_ns, there_ns=100, back_ns=100)
        assert heard.offset_ns == offset_ns
        assert heard.round_trip_ns == 200


def test_unequal_ways_are_wrong_by_half_their_difference() -> None:
    heard = sample(offset_ns=40, there_ns=300, back_ns=100)
    assert heard.offset_ns == 140
    assert abs(heard.offset_ns - 40) <= heard.round_trip_ns / 2
