"""When a round waits for drafts, and when it does not."""

import pytest

from ssd.core.ids import Epoch, SessionId
from ssd.core.messages import (
    Grow,
)
from ssd.core.mode import Mode
from ssd.core.price import CostModel
from ssd.core.rounds import GrowthSpan
from ssd.core.verifier_round import Idle
from tests.core.verifier_bench import LIMITS, ROUND_S, TEXT, Bench, chain


def _prefilled(mode: Mode = Mode.SSD, *, now: float = 100.0, max_len: int = 60) -> Bench:
    """The text is in the KV, and its root is still to run."""
    bench = Bench(now=now)
    bench.attach()
    bench.open(mode=mode, max_len=max_len)
    bench.prefill()
    return bench


def test_mode_ar_never_waits() -> None:
    _prefilled(Mode.AR).start()


def test_a_bare_cursor_is_waited_for() -> None:
    bench = _prefilled()
    action = bench.core.next_action(bench.now)
    assert isinstance(action, Idle)
    assert action.until is not None
    assert action.until > bench.now


def test_a_round_worth_more_than_a_slow_step_promises_is_launched() -> None:
    """By what rounds earned lately, a token in 10 ms, a step of 6 ms would be worth a wait."""
    bench = _prefilled()
    ms = 1_000_000
    spans = [GrowthSpan(step, 3, 6 * step * ms, (6 * step + 4) * ms, 1) for step in (1, 2)]
    grow = Grow(SessionId("a"), Epoch(1), 3, tuple(chain(3)), spans=tuple(spans))
    bench.take(bench.core.grow(grow, now=bench.now))
    assert bench.start().num_rows == 4


def test_a_drafter_with_nothing_more_is_not_waited_for() -> None:
    bench = _prefilled()
    bench.grow(is_exhausted=True)
    bench.start()


def test_exhaustion_of_a_passed_text_does_not_end_the_waiting() -> None:
    bench = _prefilled()
    bench.grow(base_len=2, is_exhausted=True)
    assert isinstance(bench.core.next_action(bench.now), Idle)


def test_a_queued_prefill_does_not_wait() -> None:
    bench = _prefilled()
    bench.open(session="b")
    bench.start()


def test_a_silent_drafter_costs_one_short_wait_a_round() -> None:
    bench = _prefilled()
    action = bench.core.next_action(bench.now)
    assert isinstance(action, Idle)
    assert action.until is not None
    bench.now = action.until
    bench.start()


@pytest.mark.parametrize("now", [0.0, 100.0])
def test_mode_sd_waits_for_the_whole_chain(now: float) -> None:
    bench = _prefilled(Mode.SD, now=now - ROUND_S)
    assert bench.core.next_action(bench.now) == Idle(bench.now + LIMITS.sd_patience_s)
    bench.now += 0.2
    bench.grow_chain(LIMITS.sd_depth - 1)
    assert isinstance(bench.core.next_action(bench.now), Idle)
    bench.grow_chain(LIMITS.sd_depth)
    assert bench.start().num_rows == LIMITS.sd_depth + 1


@pytest.mark.parametrize("now", [0.0, 100.0])
def test_mode_sd_does_not_wait_for_ever(now: float) -> None:
    bench = _prefilled(Mode.SD, now=now - ROUND_S)
    bench.core.next_action(bench.now)
    bench.now += LIMITS.sd_patience_s + 0.01
    while isinstance(action := bench.core.next_action(bench.now), Idle):
        assert action.until is not None
        assert action.until < now + LIMITS.sd_patience_s + 0.1
        bench.now = action.until


def test_mode_sd_takes_a_shorter_chain_when_no_more_will_come() -> None:
    bench = _prefilled(Mode.SD)
    bench.grow_chain(1)
    bench.grow(is_exhausted=True)
    assert bench.start().num_rows == 2


@pytest.mark.parametrize("room", [1, 2, 3])
def test_mode_sd_does_not_wait_for_tokens_beyond_the_end(room: int) -> None:
    bench = _prefilled(Mode.SD, max_len=len(TEXT) + room)
    bench.grow_chain(room - 1)
    assert bench.start().num_rows == room


def test_dear_rows_make_trees_small() -> None:
    cheap, dear = (
        Bench(cost=CostModel([(1, 0.01), (9, 0.01 + 8 * per_row)])) for per_row in (0.0, 0.008)
    )
    for bench in (cheap, dear):
        bench.attach()
        bench.open()
        bench.grow(*chain(8, estimate=0.7), is_exhausted=True)
        bench.prefill()
    assert cheap.start().num_rows == 9
    assert dear.start().num_rows == 1


def test_a_cost_model_that_says_nothing_of_one_row_is_no_obstacle() -> None:
    bench = Bench(cost=CostModel([(64, 0.01), (256, 0.1)]))
    bench.open()
    bench.round()


def test_mode_sd_waits_in_vain_once_and_not_in_every_round() -> None:
    """The drafter lost the session, or its message: the next rounds do not wait for it."""
    bench = Bench()
    bench.attach()
    bench.open(mode=Mode.SD)
    bench.round()  # the prefill
    waits = []
    for _ in range(4):
        began = bench.now
        bench.round()
        waits.append(bench.now - began - ROUND_S >= bench.core.limits.sd_patience_s)
    assert waits == [True, False, False, False]
    bench.grow_chain(2, text=(*TEXT, *bench.text()))
    began = bench.now
    bench.round()
    assert bench.now - began > bench.core.limits.sd_patience_s, "it was heard of again"
