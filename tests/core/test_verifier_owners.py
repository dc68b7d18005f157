"""Coordinators own sessions: what they are told, and what waits for them while they are away."""

import pytest

from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.ledger import LedgerEntry
from ssd.core.messages import (
    Open,
    Resume,
)
from ssd.core.verifier import Verifier
from ssd.core.verifier_outputs import ToCoordinator
from ssd.core.verifier_round import Idle
from tests.core.verifier_bench import LIMITS, TEXT, Bench, free_rows, plain


def test_messages_name_their_owner() -> None:
    core = Verifier(LIMITS, free_rows())
    [output] = core.open(Open(SessionId("a"), Epoch(1), (), 0, 10), owner="me")
    assert isinstance(output, ToCoordinator)
    assert output.owner == "me"


def test_the_ledger_says_what_is_held_for_each_coordinator() -> None:
    bench = Bench()
    bench.open(max_len=30)
    bench.round()
    bench.round()
    (entry,) = bench.core.ledger("coordinator")
    text = (*TEXT, *bench.text())
    assert entry == LedgerEntry(SessionId("a"), Epoch(1), len(text), key_of(text), len(text) - 1, 2)
    assert bench.core.ledger("somebody else") == ()


def _resume(bench: Bench, have_len: int, *, session: str = "a", epoch: int = 1) -> None:
    order = Resume(SessionId(session), Epoch(epoch), have_len)
    bench.take(bench.core.resume(order, owner="coordinator"))


def test_a_session_whose_coordinator_is_away_stands_still_and_keeps_its_kv() -> None:
    bench = Bench()
    bench.open(max_len=20)
    bench.round()
    bench.round()
    bench.take(bench.core.owner_away("coordinator"))
    assert not bench.core.has_work
    assert bench.core.next_action(bench.now) == Idle(None)
    assert bench.core.num_reserved_slots > 0


def test_a_round_that_runs_when_the_coordinator_leaves_is_said_again_on_resume() -> None:
    bench = Bench()
    bench.open(max_len=20)
    bench.round()
    done = bench.start()
    assert bench.core.owner_away("coordinator") == []
    bench.finish(done)
    bench.said.clear()  # nobody heard it
    _resume(bench, 3)
    bench.run_out()
    assert bench.text() == plain(17)


@pytest.mark.parametrize(
    ("session", "epoch", "have_len"), [("b", 1, 3), ("a", 2, 3), ("a", 1, 2), ("a", 1, 9)]
)
def test_what_does_not_stand_as_the_books_have_it_is_not_resumed(
    session: str, epoch: int, have_len: int
) -> None:
    bench = Bench()
    bench.open(max_len=20)
    bench.round()
    _resume(bench, have_len, session=session, epoch=epoch)
    assert [each.kind for each in bench.refusals] == ["UnknownSession"]


def test_other_coordinators_sessions_go_on() -> None:
    bench = Bench()
    bench.open(max_len=20)
    opening = Open(SessionId("b"), Epoch(1), TEXT, 3, 20)
    bench.take(bench.core.open(opening, owner="another"))
    bench.take(bench.core.owner_away("coordinator"))
    while bench.core.has_work:
        bench.round()
    assert not bench.commits("a")
    assert bench.text("b") == plain(17)
    bench.take(bench.core.owner_lost("coordinator"))
    assert not bench.core.sessions
