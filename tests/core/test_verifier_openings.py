"""Openings come in order of their epochs, fit the model, or are refused."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ssd.core.ids import Epoch, SessionId
from ssd.core.messages import (
    Close,
    Open,
)
from tests.core.verifier_bench import (
    LIMITS,
    TEXT,
    Bench,
    plain,
)


def test_a_repeated_open_changes_nothing() -> None:
    """A stream may deliver it twice; a refusal would end the session that the first started."""
    bench = Bench()
    bench.open(epoch=1)
    standing = bench.core.sessions[SessionId("a")]
    bench.open(epoch=1)
    assert not bench.said
    assert bench.core.sessions[SessionId("a")] is standing
    assert bench.core.num_stale == 1


@pytest.mark.parametrize(("epoch", "text"), [(0, TEXT), (1, (*TEXT, 1))])
def test_an_epoch_that_is_not_newer_is_refused(epoch: int, text: tuple[int, ...]) -> None:
    bench = Bench()
    bench.open(epoch=1)
    standing = bench.core.sessions[SessionId("a")]
    bench.open(text, epoch=epoch)
    assert bench.refusal().kind == "SessionConflict"
    assert "not newer" in bench.refusal().message
    assert bench.core.sessions[SessionId("a")] is standing


def test_an_old_epoch_is_refused_after_the_close_too() -> None:
    bench = Bench()
    bench.open(epoch=2)
    bench.take(bench.core.close(Close(SessionId("a"), Epoch(2))))
    bench.open(epoch=2)
    assert bench.refusal().kind == "SessionConflict"


def test_a_session_that_lives_long_keeps_its_epoch() -> None:
    bench = Bench()
    bench.open(epoch=5)
    for index in range(5000):
        bench.core.open(Open(SessionId(f"s{index}"), Epoch(1), TEXT, 3, 4), owner="c")
        bench.core.close(Close(SessionId(f"s{index}"), Epoch(1)))
    bench.open(epoch=4)
    assert bench.refusal().kind == "SessionConflict"


def test_a_newer_epoch_replaces_the_session_and_its_kv() -> None:
    bench = Bench()
    bench.open(epoch=1)
    bench.round()
    bench.open((*TEXT, *plain(1)), epoch=2)
    assert not bench.memory.kv_ids
    bench.run_out()
    assert plain(57)[1:] == tuple(
        token for each in bench.commits() if each.epoch == 2 for token in each.token_ids
    )


@pytest.mark.parametrize(
    ("text", "max_len", "word"),
    [
        ((), 10, "0 tokens"),
        ((1, 2, 3), 3, "3 tokens"),
        ((1, 2, 3), 65, "limit of 65"),
        (range(12), 11, "12 tokens"),
        ((1, 12), 10, "token id 12"),
        ((-1,), 10, "token id -1"),
    ],
)
def test_a_text_that_cannot_be_served_is_refused(
    text: Sequence[int], max_len: int, word: str
) -> None:
    bench = Bench()
    bench.open(text, max_len=max_len)
    assert bench.refusal().kind == "InvalidRequest"
    assert word in bench.refusal().message
    assert not bench.core.sessions


def test_a_refused_epoch_may_be_tried_again() -> None:
    bench = Bench(replace(LIMITS, kv_slots=75))
    bench.open(session="a")
    bench.open(session="b")
    assert bench.refusal().kind == "NoCapacity"
    bench.take(bench.core.close(Close(SessionId("a"), Epoch(1))))
    bench.open(session="b")
    assert len(bench.said) == 1
    assert SessionId("b") in bench.core.sessions


def test_a_full_verifier_can_move_a_session_to_a_new_epoch() -> None:
    bench = Bench(replace(LIMITS, kv_slots=70))
    bench.open(epoch=1)
    bench.open(epoch=2)
    assert bench.said == []


def test_more_sessions_than_rows_are_refused() -> None:
    """Each has a root in every round, and prefill needs its half of the rows."""
    bench = Bench(replace(LIMITS, max_rows=4))
    for name in ("a", "b", "c"):
        bench.open(session=name, max_len=10)
    assert bench.refusal().kind == "NoCapacity"
    assert bench.refusal().session_id == "c"


def test_no_round_has_more_rows_than_allowed() -> None:
    bench = Bench(replace(LIMITS, max_rows=8))
    bench.attach()
    for index in range(4):
        bench.open(range(8), session=str(index), max_len=20)
    while bench.core.sessions:
        for name, session in bench.core.sessions.items():
            bench.grow_chain(6, text=session.token_ids, session=name)
        assert bench.round().num_rows <= 8


def test_an_unknown_close_is_ignored() -> None:
    bench = Bench()
    bench.take(bench.core.close(Close(SessionId("a"), Epoch(1))))
    assert bench.core.num_stale == 1


def test_a_close_of_an_older_epoch_is_ignored() -> None:
    bench = Bench()
    bench.open(epoch=2)
    bench.take(bench.core.close(Close(SessionId("a"), Epoch(1))))
    assert bench.core.sessions


def test_a_lost_owner_takes_its_sessions_along() -> None:
    bench = Bench()
    bench.open(session="a")
    bench.core.open(Open(SessionId("b"), Epoch(1), TEXT, 3, 10), owner="another")
    bench.take(bench.core.owner_lost("coordinator"))
    assert list(bench.core.sessions) == ["b"]
