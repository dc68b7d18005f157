"""Forwards that fail have one culprit, or the engine is broken."""

import pytest

from ssd.core.errors import EngineBroken
from ssd.core.verifier_round import Idle
from tests.core.verifier_bench import TEXT, Bench, plain


def _fail_with(bench: Bench, *poisoned: str) -> None:
    """Run the next round, which fails if one of these sessions is in it."""
    done = bench.start()
    if {share.session.opening.session_id for share in done.shares} & set(poisoned):
        bench.take(bench.core.round_failed(done))
    else:
        bench.finish(done)


def test_a_poisoned_session_is_found_refused_and_costs_the_others_no_token() -> None:
    bench = Bench()
    for name in ("a", "b", "c", "d"):
        bench.open(session=name, max_len=12)
    num_rounds = 0
    while bench.core.has_work:
        _fail_with(bench, "c")
        num_rounds += 1
        assert num_rounds < 40
    assert [(each.session_id, each.kind) for each in bench.refusals] == [("c", "Poisoned")]
    for name in ("a", "b", "d"):
        assert bench.text(name) == plain(9)
    assert bench.core.num_reserved_slots == 0


def test_one_failure_alone_is_forgiven() -> None:
    bench = Bench()
    bench.attach()
    bench.open(max_len=12)
    bench.prefill()
    for _ in range(3):
        bench.grow_chain(3, text=(*TEXT, *bench.text()))
        while isinstance(action := bench.core.next_action(bench.now), Idle):
            assert action.until is not None
            bench.now = action.until
        bench.take(bench.core.round_failed(action))
        bench.round()
    bench.run_out()
    assert bench.text() == plain(9)


def test_an_engine_that_fails_at_everything_is_broken_and_no_session_is_to_blame() -> None:
    bench = Bench()
    for name in ("a", "b", "c", "d"):
        bench.open(session=name, max_len=12)

    def fail_at_everything() -> None:
        for _ in range(20):
            bench.take(bench.core.round_failed(bench.start()))

    with pytest.raises(EngineBroken, match="each of 4 sessions alone"):
        fail_at_everything()
    assert not bench.refusals


def test_an_engine_that_fails_for_one_lone_session_after_the_other_is_broken() -> None:
    bench = Bench()

    def fail_at(name: str) -> None:
        bench.open(session=name, max_len=12)
        while bench.core.has_work:
            bench.take(bench.core.round_failed(bench.start()))

    fail_at("a")
    fail_at("b")
    assert [each.kind for each in bench.refusals] == ["Poisoned", "Poisoned"]
    with pytest.raises(EngineBroken, match="3 sessions alone"):
        fail_at("c")
