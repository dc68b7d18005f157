"""What `ssd top` makes of two looks."""

import pytest

from ssd.core.errors import Unavailable
from ssd.telemetry.live_figures import Process, Snapshot, figures_between, take_snapshot
from ssd.telemetry.scraping import Scrape


def snapshot(at_s: float, **samples: float) -> Snapshot:
    found = {(name, frozenset[tuple[str, str]]()): value for name, value in samples.items()}
    return Snapshot(at_s, {"verifier-0": Scrape(found)})


def test_rates_are_taken_between_the_looks() -> None:
    before = snapshot(
        10.0, ssd_committed_tokens_total=100, ssd_rounds_total=50, ssd_device_seconds_total=3
    )
    now = snapshot(
        12.0, ssd_committed_tokens_total=400, ssd_rounds_total=150, ssd_device_seconds_total=4
    )
    figures = figures_between(before, now)
    assert figures.tokens_per_s == 150
    assert figures.tokens_per_round == 3
    assert figures.workers[0].device_busy == 0.5


def test_a_process_that_started_again_does_not_count_backwards() -> None:
    figures = figures_between(
        snapshot(1.0, ssd_committed_tokens_total=100), snapshot(2.0, ssd_committed_tokens_total=4)
    )
    assert figures.tokens_per_s == 0


def test_nothing_divides_by_zero() -> None:
    figures = figures_between(snapshot(1.0), snapshot(1.0))
    assert figures.acceptance == figures.tokens_per_round == figures.speedup == 0


def test_a_process_that_does_not_answer_is_named() -> None:
    with pytest.raises(Unavailable, match="no figures of drafter-0"):
        take_snapshot([Process("drafter-0", "127.0.0.1:1")], 0.0)
