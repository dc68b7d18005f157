"""A drafter follows the committed text, whatever runs meanwhile."""

from dataclasses import replace

import pytest

from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.messages import Commit, Need
from tests.core.drafter_bench import LIMITS, MODEL, PEER, TEXT, Bench, chain, rows


def test_a_commit_on_the_tree_runs_nothing_twice() -> None:
    bench = Bench()
    bench.open()
    bench.grow_all()
    before = bench.memory.num_rows
    bench.commit(TEXT, *chain(1))
    step = bench.step()
    assert step is not None
    assert all(position > len(TEXT) for group in step.groups for position in group.positions)
    assert bench.memory.num_rows > before


def test_a_commit_off_the_tree_runs_the_new_token() -> None:
    bench = Bench()
    bench.open()
    bench.grow_all()
    missing = next(each for each in range(12) if each not in MODEL.ranked(TEXT, 2)[0])
    bench.commit(TEXT, missing)
    assert rows(bench.step()) == [(missing,)]


def test_full_acceptance_runs_the_token_that_was_never_run() -> None:
    """The bonus token after a whole accepted path, and the leaf before it."""
    bench = Bench(replace(LIMITS, growth=replace(LIMITS.growth, max_depth=1, num_candidates=1)))
    bench.open()
    bench.grow_all()
    accepted = chain(2)
    bench.commit(TEXT, *accepted)
    assert rows(bench.step()) == [accepted]


def test_a_repeated_commit_is_ignored() -> None:
    bench = Bench()
    bench.open()
    bench.commit(TEXT, 5, 6)
    bench.commit(TEXT, 5, 6)
    assert bench.core.num_stale == 1
    assert bench.sent == []
    assert rows(bench.step()) == [(*TEXT, 5, 6)]


def test_an_overlapping_commit_adds_what_is_new() -> None:
    bench = Bench()
    bench.open()
    bench.commit(TEXT, 5)
    bench.commit(TEXT, 5, 6)
    assert rows(bench.step()) == [(*TEXT, 5, 6)]


def test_a_gap_asks_for_the_rest_and_pauses_the_session() -> None:
    bench = Bench()
    bench.open()
    bench.commit((*TEXT, 5), 6)
    assert bench.sent == [Need(SessionId("a"), Epoch(1), 3)]
    assert bench.step() is None
    bench.commit(TEXT, 5)
    assert len(bench.sent) == 1


def test_an_opening_ends_the_pause() -> None:
    bench = Bench()
    bench.open()
    bench.commit((*TEXT, 5), 6)
    bench.open((*TEXT, 5, 6))
    assert rows(bench.step()) == [(*TEXT, 5, 6)]


def test_a_commit_to_another_text_asks_for_all_of_it() -> None:
    bench = Bench()
    bench.open()
    bench.take(
        bench.core.commit(Commit(SessionId("a"), Epoch(1), 3, key_of((3, 1, 5)), (6,)), peer=PEER)
    )
    assert bench.sent == [Need(SessionId("a"), Epoch(1), 0)]


@pytest.mark.parametrize(("session", "epoch"), [("a", 0), ("a", 2), ("b", 1)])
def test_a_commit_of_another_epoch_or_session_is_stale(session: str, epoch: int) -> None:
    bench = Bench()
    bench.open()
    bench.commit(TEXT, 5, session=session, epoch=epoch)
    assert bench.core.num_stale == 1
    assert rows(bench.step()) == [TEXT]


def test_what_was_collected_is_sent_when_the_text_moves() -> None:
    """The verifier plans its next tree right after the commit; what comes later is of no use."""
    bench = Bench(replace(LIMITS, growth=replace(LIMITS.growth, push_reach=100.0)))
    bench.open()
    for _ in range(3):
        bench.step()
    assert bench.positions() == []
    bench.commit(TEXT, *chain(1))
    sent = bench.grown()[-1]
    assert key_of((*TEXT, *chain(1))) in {each.key for each in sent.expansions}
    assert sent.base_len == 4


def test_what_the_text_has_passed_is_not_sent() -> None:
    bench = Bench(replace(LIMITS, growth=replace(LIMITS.growth, push_reach=100.0)))
    bench.open()
    for _ in range(4):
        bench.step()
    bench.commit(TEXT, *chain(2))
    assert all(each.position >= 5 for grow in bench.grown() for each in grow.expansions)


def test_a_commit_while_its_token_runs_is_not_the_end_of_growth() -> None:
    limits = replace(LIMITS.growth, num_candidates=1, max_depth=2)
    bench = Bench(replace(LIMITS, growth=limits))
    bench.open()
    bench.step()
    step = bench.start()
    assert step is not None
    bench.commit(TEXT, *chain(1))
    assert not any(grow.is_exhausted for grow in bench.grown())
    bench.finish(step)
    assert bench.grown()[-1].expansions[0].key == key_of((*TEXT, *chain(1)))


@pytest.mark.parametrize("event", ["close", "reopen", "lose"])
def test_the_answer_to_a_session_that_left_meanwhile_is_dropped(event: str) -> None:
    bench = Bench()
    bench.open()
    bench.open((7,), session="b")
    step = bench.start()
    assert step is not None
    answers = bench.answers(step)
    if event == "close":
        bench.close()
    elif event == "reopen":
        bench.open(epoch=2)
    else:
        bench.take(bench.core.peer_lost(PEER))
    bench.take(bench.core.step_done(step, answers, start_s=0.0, end_s=1.0))
    assert [grow.session_id for grow in bench.grown()] == ([] if event == "lose" else ["b"])
