"""What waiting for drafts must beat, and by what it is judged."""

import pytest

from ssd.core.edge_rates import EdgeRates
from ssd.core.launch import share_to_beat


def test_where_many_steps_fit_under_a_verification_waiting_must_beat_nearly_all() -> None:
    assert share_to_beat(0.001, 0.025) == pytest.approx(0.94)


def test_where_few_do_less_is_enough_and_never_nothing() -> None:
    shares = [share_to_beat(step_s, 0.003) for step_s in (0.0003, 0.0009, 0.0015, 0.006, 1.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == shares[-2] == 0.4


def test_the_rate_of_first_candidates_is_counted_over_all_estimates() -> None:
    rates = EdgeRates()
    assert rates.first_rate == pytest.approx(0.8)
    for estimate in (0.9, 0.3):
        for index in range(500):
            rates.record(0, estimate, is_match=index % 2 == 0)
            rates.record(1, estimate, is_match=True)
    assert rates.first_rate == pytest.approx(0.5, abs=0.01)
