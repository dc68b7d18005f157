"""Openings and prompts: what a drafter runs first, and what it refuses."""

from dataclasses import replace

from ssd.core.drafter import Drafter
from ssd.core.drafter_outputs import DraftOver, ReleaseDraftKv
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.messages import Open, Refused
from tests.core.drafter_bench import LIMITS, MODEL, TEXT, Bench, rows


def test_a_drafter_without_sessions_rests() -> None:
    assert Bench().step() is None


def test_the_first_step_runs_the_text_and_expands_its_last_token() -> None:
    bench = Bench()
    bench.open()
    step = bench.step()
    assert rows(step) == [TEXT]
    [grow] = bench.grown()
    assert [each.key for each in grow.expansions] == [key_of(TEXT)]
    assert grow.expansions[0].token_ids == MODEL.ranked(TEXT, 2)[0]
    assert grow.expansions[0].position == 3
    assert (grow.base_len, grow.is_exhausted) == (3, False)
    assert [span.num_rows for span in grow.spans] == [3]


def test_a_long_text_is_run_in_chunks() -> None:
    bench = Bench(replace(LIMITS, max_rows=4))
    bench.open(range(10))
    assert rows(bench.step()) == [(0, 1, 2, 3)]
    assert rows(bench.step()) == [(4, 5, 6, 7)]
    assert rows(bench.step()) == [(8, 9)]
    assert bench.grown()[0].expansions[0].token_ids == MODEL.ranked(tuple(range(10)), 2)[0]


def test_a_long_text_does_not_cost_another_session_its_frontier() -> None:
    bench = Bench(replace(LIMITS, max_rows=4))
    bench.open(range(10), session="long")
    bench.open((7,), session="short")
    bench.grow_all()
    assert {key_of(range(10)), key_of((7,))} <= {
        each.key for grow in bench.grown() for each in grow.expansions
    }


def test_a_text_without_tokens_is_refused() -> None:
    bench = Bench()
    bench.open(())
    [refusal] = bench.sent
    assert isinstance(refusal, Refused)
    assert refusal.kind == "InvalidRequest"
    assert not bench.core.sessions


def test_a_session_without_room_is_refused() -> None:
    bench = Bench(replace(LIMITS, kv_slots=100))
    bench.open(session="a")
    bench.open(session="b")
    [refusal] = bench.sent
    assert isinstance(refusal, Refused)
    assert (refusal.session_id, refusal.kind) == ("b", "NoCapacity")


def test_room_comes_back_with_a_close() -> None:
    bench = Bench(replace(LIMITS, kv_slots=100))
    bench.open(session="a")
    bench.step()
    bench.close(session="a")
    assert not bench.memory.kv_ids
    bench.open(session="b")
    assert not any(isinstance(each, Refused) for each in bench.sent)


def test_an_opening_of_an_older_epoch_changes_nothing() -> None:
    bench = Bench()
    bench.open((*TEXT, 5), epoch=2)
    bench.open(TEXT, epoch=1)
    assert rows(bench.step()) == [(*TEXT, 5)]
    assert bench.core.num_stale == 1


def test_an_opening_of_the_same_epoch_starts_anew() -> None:
    bench = Bench()
    bench.open(TEXT)
    bench.grow_all()
    bench.open((*TEXT, 5, 6))
    assert rows(bench.step()) == [(*TEXT, 5, 6)]


def test_a_close_of_an_older_epoch_changes_nothing() -> None:
    bench = Bench()
    bench.open(epoch=2)
    bench.close(epoch=1)
    assert bench.core.sessions
    assert bench.core.num_stale == 1


def test_two_verifiers_may_use_one_session_id() -> None:
    core = Drafter(LIMITS)
    opening = Open(SessionId("a"), Epoch(1), TEXT, 3, 60, cache_salt=None)
    core.open(opening, peer="one")
    core.open(opening, peer="two")
    step = core.next_step()
    assert step is not None
    assert len({group.kv_id for group in step.groups}) == 2
    kv_id = step.groups[0].kv_id
    assert core.peer_lost("one") == [DraftOver(kv_id), ReleaseDraftKv(kv_id)]
    assert [key[0] for key in core.sessions] == ["two"]
