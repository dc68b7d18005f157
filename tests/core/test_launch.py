"""Waiting for the drafter is bought only while it pays, and never past a late step."""

import pytest

from ssd.core.launch import DrafterPace, Patience
from ssd.core.rounds import GrowthSpan

PRICE = 100.0  # tokens per second; a step of 3 ms is worth waiting for from 0.3 tokens on


def _pace(step_s: float) -> DrafterPace:
    pace = DrafterPace()
    for _ in range(200):
        pace.observe(step_s)
    return pace


def test_a_step_that_promises_more_than_its_price_is_waited_for() -> None:
    until = Patience(_pace(0.003)).wait_until(5.0, promise=0.31, tokens_per_s=PRICE)
    assert until == pytest.approx(5.009)


def test_a_step_that_promises_less_is_not() -> None:
    assert Patience(_pace(0.003)).wait_until(5.0, promise=0.29, tokens_per_s=PRICE) is None


def test_waiting_ends_when_the_step_is_late() -> None:
    patience = Patience(_pace(0.003))
    assert patience.wait_until(5.0, promise=1.0, tokens_per_s=PRICE) is not None
    assert patience.wait_until(5.008, promise=1.0, tokens_per_s=PRICE) is not None
    assert patience.wait_until(5.010, promise=1.0, tokens_per_s=PRICE) is None


def test_an_arrival_in_time_renews_the_wait() -> None:
    patience = Patience(_pace(0.003))
    patience.wait_until(5.0, promise=1.0, tokens_per_s=PRICE)
    patience.arrived(5.003)
    until = patience.wait_until(5.003, promise=1.0, tokens_per_s=PRICE)
    assert until == pytest.approx(5.012, abs=1e-4)


def test_after_a_late_step_nothing_more_is_waited_for() -> None:
    patience = Patience(_pace(0.003))
    patience.wait_until(5.0, promise=1e9, tokens_per_s=PRICE)
    patience.arrived(5.010)
    assert patience.wait_until(5.010, promise=1e9, tokens_per_s=PRICE) is None


def test_the_next_round_waits_again() -> None:
    pace = _pace(0.003)
    patience = Patience(pace)
    patience.wait_until(5.0, promise=1.0, tokens_per_s=PRICE)
    assert patience.wait_until(6.0, promise=1.0, tokens_per_s=PRICE) is None
    assert Patience(pace).wait_until(6.0, promise=1.0, tokens_per_s=PRICE) is not None


def _wait_in_vain(pace: DrafterPace, start: float) -> None:
    patience = Patience(pace)
    patience.wait_until(start, promise=1.0, tokens_per_s=PRICE)
    assert patience.wait_until(start + 1.0, promise=1.0, tokens_per_s=PRICE) is None


def test_after_two_waits_in_vain_nothing_is_waited_for_until_something_comes() -> None:
    pace = _pace(0.003)
    _wait_in_vain(pace, 5.0)
    _wait_in_vain(pace, 7.0)
    patience = Patience(pace)
    assert patience.wait_until(9.0, promise=1e9, tokens_per_s=PRICE) is None
    patience.arrived(9.001)
    assert patience.wait_until(9.001, promise=1.0, tokens_per_s=PRICE) is not None


def test_a_round_asked_twice_after_its_patience_waited_in_vain_once() -> None:
    pace = _pace(0.003)
    patience = Patience(pace)
    for now in (5.0, 6.0, 7.0):
        patience.wait_until(now, promise=1.0, tokens_per_s=PRICE)
    assert not pace.is_silent


def test_a_wait_that_something_answered_was_not_in_vain() -> None:
    pace = _pace(0.003)
    for start in (5.0, 7.0, 9.0):
        patience = Patience(pace)
        patience.wait_until(start, promise=1.0, tokens_per_s=PRICE)
        patience.arrived(start + 0.001)
        assert patience.wait_until(start + 1.0, promise=1.0, tokens_per_s=PRICE) is None
    assert not pace.is_silent


def test_the_pace_follows_what_was_waited() -> None:
    pace = DrafterPace()
    for start in range(100):
        patience = Patience(pace)
        patience.wait_until(float(start), promise=1e9, tokens_per_s=PRICE)
        patience.arrived(start + 0.02)
    assert pace.step_s == pytest.approx(0.02, rel=0.05)


def test_arrivals_that_nobody_waited_for_do_not_change_the_pace() -> None:
    pace = DrafterPace()
    before = pace.step_s
    Patience(pace).arrived(9.0)
    assert pace.step_s == before


def _span(step: int, start_ms: float, length_ms: float = 1.0) -> GrowthSpan:
    return GrowthSpan(step, 0, round(start_ms * 1e6), round((start_ms + length_ms) * 1e6), 1)


def test_the_pace_is_learnt_from_steps_that_followed_one_another() -> None:
    pace = DrafterPace()
    pace.grew([_span(1, 0.0), _span(2, 1.5)])
    pace.grew([_span(3, 3.0)])
    assert pace.step_s == pytest.approx(0.0015)


def test_a_drafter_that_slept_says_nothing_of_its_pace() -> None:
    pace = DrafterPace()
    before = pace.step_s
    pace.grew([_span(1, 0.0), _span(2, 40.0), _span(4, 41.5)])
    assert pace.step_s == before


def test_steps_that_another_session_shared_count_once() -> None:
    pace = DrafterPace()
    steps = [_span(1, 0.0), _span(2, 1.5)]
    pace.grew(steps)
    pace.grew(steps)
    assert pace.step_s == pytest.approx(0.0015)
