"""The ratios of the last minute, by hand."""

import pytest

from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, Lookup, RoundRecord, WhyPlain
from ssd.telemetry.recent_work import SECOND_NS, WINDOW_S, Forward, RecentWork

MS = 1_000_000


def forward(
    launch_ms: int,
    end_ms: int,
    *,
    wait_ms: int = 0,
    rows: int = 5,
    tokens: int = 3,
    why: WhyPlain | None = None,
) -> Forward:
    record = RoundRecord(
        round_id=1,
        base_len=4,
        launch_ns=launch_ms * MS,
        end_ns=end_ms * MS,
        wait_ns=wait_ms * MS,
        num_proposed=rows - 1,
        num_accepted=tokens - 1,
        num_tested=2,
        num_batch_rows=rows,
        lookup=Lookup.HIT,
        why_plain=why,
    )
    return Forward([record], Mode.SSD, num_tokens=tokens, plain_s=0.004)


def step(number: int, start_ms: int, end_ms: int) -> GrowthSpan:
    return GrowthSpan(number, 4, start_ms * MS, end_ms * MS, 1)


def test_nothing_divides_by_zero() -> None:
    lately = RecentWork().lately(0)
    assert lately.busy == lately.overlap == lately.draft_cost == lately.speedup == 0.0


def test_ratios_of_two_forwards() -> None:
    recent = RecentWork()
    recent.verified(forward(2, 10, wait_ms=2))
    recent.grew([step(1, 4, 8), step(2, 8, 12)])
    recent.verified(forward(12, 20, wait_ms=2))
    lately = recent.lately(20 * MS)
    assert lately.busy == pytest.approx(16 / 20)
    assert lately.overlap == pytest.approx(6 / 8)
    assert lately.draft_cost == pytest.approx(4 / 8)
    assert lately.speedup == pytest.approx(6 * 4 / 20)  # six tokens at 4 ms each, in 20 ms


def test_a_step_that_many_forwards_passed_over_is_counted_whole() -> None:
    """A drafter that gets no CPU for a while beside a quick target."""
    recent = RecentWork()
    for start in range(0, 800, 4):
        recent.verified(forward(start, start + 3))
    recent.grew([step(1, 0, 800)])
    recent.verified(forward(800, 803))
    assert recent.lately(803 * MS).overlap == pytest.approx(3 / 4)


def test_probes_correct_the_cost_model() -> None:
    """With what lies between two forwards, of which the model says nothing."""
    recent = RecentWork()
    recent.verified(forward(2, 10, wait_ms=2, rows=1, tokens=1, why=WhyPlain.PROBE))  # it said 4 ms
    recent.verified(forward(10, 20))
    assert recent.lately(20 * MS).speedup == pytest.approx(4 * 10 / 20)


def test_a_round_that_waited_for_drafts_in_vain_is_no_probe() -> None:
    recent = RecentWork()
    recent.verified(forward(8, 16, wait_ms=8, rows=1, tokens=1, why=WhyPlain.NOT_READY))
    assert recent.lately(16 * MS).speedup == pytest.approx(4 / 16)


def test_the_last_probe_counts_until_there_is_another() -> None:
    recent = RecentWork()
    recent.verified(forward(0, 8, rows=1, tokens=1, why=WhyPlain.PROBE))
    later_ms = (WINDOW_S + 5) * 1000
    recent.verified(forward(later_ms, later_ms + 8))
    assert recent.lately((later_ms + 8) * MS).speedup == pytest.approx(3 * 8 / 8)


def test_a_step_of_two_sessions_counts_once() -> None:
    recent = RecentWork()
    recent.grew([step(1, 0, 4)])
    recent.grew([step(1, 0, 4), step(2, 6, 14)])
    recent.verified(forward(0, 10))
    assert recent.lately(0).overlap == 1.0  # the second step may still be under a forward to come
    recent.verified(forward(13, 20))
    assert recent.lately(0).overlap == pytest.approx((4 + 4 + 1) / 12)


def test_older_work_is_left_out() -> None:
    recent = RecentWork()
    recent.verified(forward(0, 10, wait_ms=10))
    assert recent.lately(WINDOW_S * SECOND_NS).busy == pytest.approx(0.5)
    assert recent.lately((WINDOW_S + 1) * SECOND_NS).busy == 0.0
