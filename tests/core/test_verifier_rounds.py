"""Rounds: prefill rides along, drafts change the speed and not the text."""

from dataclasses import replace

import pytest

from ssd.core.expansion import Expansion
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.logprobs import LogprobsWanted
from ssd.core.messages import (
    Close,
    Open,
)
from ssd.core.mode import Mode
from ssd.core.verifier_round import Idle
from tests.core.verifier_bench import LIMITS, TEXT, VOCAB_SIZE, Bench, plain


def test_without_sessions_there_is_nothing_to_wait_for() -> None:
    assert Bench().core.next_action(100.0) == Idle(None)


def test_a_prompt_is_run_in_chunks_before_the_first_token() -> None:
    bench = Bench(replace(LIMITS, max_rows=4))
    bench.open(range(10))
    rows = [[group.token_ids for group in bench.round().groups] for _ in range(3)]
    assert rows == [[(0, 1, 2, 3)], [(4, 5, 6, 7)], [(8, 9)]]
    assert bench.commits()[0].token_ids == plain(1, text=range(10))


def test_a_root_that_does_not_fit_beside_the_end_of_its_prompt_comes_next() -> None:
    bench = Bench(replace(LIMITS, max_rows=4))
    bench.open(range(9))
    rows = [[group.token_ids for group in bench.round().groups] for _ in range(3)]
    assert rows == [[(0, 1, 2, 3)], [(4, 5, 6, 7)], [(8,)]]


def test_the_end_of_a_prompt_and_its_root_make_the_first_token() -> None:
    bench = Bench()
    bench.attach()
    bench.open(salt="")
    bench.grow_chain(2)  # what is drafted already is not waited for, nor does it do harm
    [group] = bench.round().groups
    assert (group.token_ids, group.wanted) == (TEXT, (2,))
    [commit] = bench.commits()
    assert commit.token_ids == plain(1)
    assert commit.record is not None
    assert (commit.record.base_len, commit.record.num_batch_rows) == (3, 3)
    bench.open(session="b", salt="")
    assert bench.core.sessions[SessionId("b")].num_cached == len(TEXT) - 1
    bench.run_out()
    assert bench.text() == plain(57)


def test_the_end_of_a_prompt_that_failed_is_run_again() -> None:
    bench = Bench()
    bench.open()
    bench.take(bench.core.round_failed(bench.start()))
    assert bench.core.sessions[SessionId("a")].kv_len == 0
    bench.run_out()
    assert bench.text() == plain(57)


def test_prompt_logprobs_are_read_off_a_chunk_of_their_own() -> None:
    bench = Bench()
    opening = Open(
        SessionId("a"), Epoch(1), TEXT, len(TEXT), 10, logprobs=LogprobsWanted(prompt_top=0)
    )
    bench.take(bench.core.open(opening, owner="coordinator"))
    wanted = [bench.round().groups[0].wanted for _ in range(2)]
    assert wanted == [(0, 1), (0,)]


def test_a_prompt_of_one_token_needs_no_prefill() -> None:
    bench = Bench()
    bench.open((7,))
    assert bench.round().groups[0].wanted == (0,)


def test_prefill_rides_along_with_decoding() -> None:
    bench = Bench(replace(LIMITS, max_rows=8))
    bench.open(session="a")
    bench.round()
    bench.open(range(12), session="b")
    done = bench.round()
    assert [share.session.opening.session_id for share in done.shares] == ["a", "b"]
    assert done.num_rows == 8


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("depth", [0, 1, 3, 8, 12])
def test_drafts_change_the_speed_and_not_the_text(mode: Mode, depth: int) -> None:
    bench = Bench()
    bench.attach()
    bench.open(max_len=30, mode=mode)
    while bench.core.sessions:
        text = bench.core.sessions[SessionId("a")].token_ids
        bench.grow_chain(depth, text=text)
        bench.round()
    assert bench.text() == plain(27)
    most = {Mode.AR: 0, Mode.SHADOW: 0, Mode.SD: LIMITS.sd_depth, Mode.SSD: LIMITS.max_nodes}[mode]
    records = [each.record for each in bench.commits()]
    assert max(each.num_accepted for each in records if each is not None) == min(depth, most)


def test_mode_ar_verifies_nothing_that_a_drafter_sends() -> None:
    bench = Bench()
    bench.attach()
    bench.open(mode=Mode.AR)
    bench.grow_chain(5)
    assert bench.drafted == []
    bench.round()
    assert bench.round().num_rows == 1
    assert bench.core.num_stale == 1


def test_wrong_drafts_are_freed() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    wrong = [each for each in range(VOCAB_SIZE) if each != plain(1)[0]][:5]
    bench.grow(Expansion(key_of(TEXT), 3, tuple(wrong), (0.9, 0.5, 0.4, 0.3, 0.2)))
    bench.prefill()
    assert bench.round().num_rows == 6
    record = bench.commits()[0].record
    assert record is not None
    assert (record.num_proposed, record.num_tested, record.num_accepted) == (5, 1, 0)
    assert bench.core.sessions[SessionId("a")].kv_len == 3


def test_a_sibling_is_accepted() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    right = plain(1)[0]
    wrong = next(each for each in range(VOCAB_SIZE) if each != right)
    bench.grow(Expansion(key_of(TEXT), 3, (wrong, right), (0.6, 0.3)))
    bench.prefill()
    bench.round()
    assert bench.text() == plain(2)


def test_a_round_whose_session_left_meanwhile_says_nothing() -> None:
    bench = Bench()
    bench.open()
    bench.prefill()
    done = bench.start()
    bench.memory.forward(done.groups)
    bench.core.close(Close(SessionId("a"), Epoch(1)))
    bench.take(bench.core.round_done(done, [[5]], launch_s=1.0, end_s=2.0))
    assert bench.said == []


def test_a_round_whose_session_was_opened_anew_does_not_touch_it() -> None:
    bench = Bench()
    bench.open(epoch=1)
    bench.prefill()
    done = bench.start()
    bench.core.open(Open(SessionId("a"), Epoch(2), TEXT, 3, 60), owner="coordinator")
    bench.take(bench.core.round_done(done, [[5]], launch_s=1.0, end_s=2.0))
    assert bench.said == []
    assert bench.core.sessions[SessionId("a")].committed_len == 3


@pytest.mark.parametrize("estimate", [float("nan"), float("inf"), -0.1, 1.5])
def test_estimates_that_are_no_probabilities_are_dropped(estimate: float) -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    bench.grow(Expansion(key_of(TEXT), 3, (1,), (estimate,)))
    assert bench.core.num_stale == 1
    bench.prefill()
    assert bench.round().num_rows == 1


@pytest.mark.parametrize("token_id", [-1, VOCAB_SIZE, 10**9])
def test_draft_tokens_outside_the_vocabulary_are_dropped(token_id: int) -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    bench.grow(Expansion(key_of(TEXT), 3, (1, token_id), (0.5, 0.5)))
    assert bench.core.num_stale == 1
    bench.prefill()
    assert bench.round().num_rows == 1


@pytest.mark.parametrize(
    ("session", "epoch", "position"), [("b", 1, 3), ("a", 0, 3), ("a", 2, 3), ("a", 1, 2)]
)
def test_drafts_for_another_session_epoch_or_a_passed_text_are_dropped(
    session: str, epoch: int, position: int
) -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    expansion = Expansion(key_of(TEXT), position, (1,), (0.5,))
    bench.grow(expansion, session=session, epoch=epoch)
    assert bench.core.num_stale == 1
    assert len(bench.core.sessions[SessionId("a")].expansions) == 0
