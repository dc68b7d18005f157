"""Nothing is grown that could not be of use."""

from dataclasses import replace

import pytest

from ssd.core.drafter import Drafter
from ssd.core.edge_rates import NUM_CELLS
from ssd.core.messages import Need, Rates, Refused
from ssd.core.mode import Mode
from tests.core.drafter_bench import LIMITS, SD_DEPTH, TEXT, Bench, chain


def test_a_text_longer_than_the_context_is_never_run() -> None:
    bench = Bench(replace(LIMITS, context_len=10))
    bench.open(range(11))
    assert bench.step() is None
    [grow] = bench.grown()
    assert (grow.base_len, grow.expansions, grow.is_exhausted) == (11, (), True)


def test_each_commit_beyond_the_context_is_answered_once() -> None:
    bench = Bench(replace(LIMITS, context_len=10))
    bench.open(range(11))
    bench.commit(range(11), 5)
    bench.commit(range(11), 5)
    assert [grow.base_len for grow in bench.grown()] == [11, 12]
    assert bench.step() is None


def test_no_row_is_beyond_the_context() -> None:
    bench = Bench(replace(LIMITS, context_len=6))
    bench.open()
    text: tuple[int, ...] = TEXT
    for _ in range(6):
        while (step := bench.step()) is not None:
            assert max(max(group.positions) for group in step.groups) < 6
        bench.commit(text, *chain(1, text))
        text += chain(1, text)


@pytest.mark.parametrize("room", range(1, 8))
def test_nothing_is_grown_that_could_not_be_accepted(room: int) -> None:
    """The last token of a text is always a bonus token."""
    bench = Bench()
    bench.open(max_len=len(TEXT) + room)
    bench.grow_all()
    positions = [each for message in bench.positions() for each in message]
    assert max(positions, default=0) <= len(TEXT) + room - 2
    assert bool(positions) == (room > 1)
    assert bench.grown()[-1].is_exhausted


def test_steps_that_the_text_will_hardly_reach_do_not_run() -> None:
    """And what was found before is sent whole, because nothing more will come."""
    least = 0.4
    whole = Bench()
    frugal = Bench(replace(LIMITS, growth=replace(LIMITS.growth, min_step_reach=least)))
    text: tuple[int, ...] = TEXT
    for bench in (whole, frugal):
        bench.open()
    for _ in range(4):
        num_run = 0
        while (step := frugal.start()) is not None:
            [share] = step.shares
            reaches = [share.session.tree.reach_of(node) for node in share.nodes]
            assert share.session.is_urgent or not reaches or sum(reaches) >= least
            num_run += len(share.nodes)
            frugal.finish(step)
        whole.grow_all()
        assert num_run > 0
        mine = [each for each in frugal.grown() if each.base_len == len(text)]
        assert sum(len(each.expansions) for each in mine) == num_run
        assert [each.is_exhausted for each in mine] == [*[False] * (len(mine) - 1), True]
        for bench in (whole, frugal):
            bench.commit(text, *chain(1, text))
        text += chain(1, text)
    assert frugal.core.num_steps < whole.core.num_steps


def test_exhaustion_is_told_once_per_text() -> None:
    bench = Bench()
    bench.open()
    for length in range(3):
        bench.grow_all()
        bench.grow_all()
        text = (*TEXT, *chain(length))
        assert [grow.base_len for grow in bench.grown() if grow.is_exhausted].count(len(text)) == 1
        bench.commit(text, *chain(1, text))


@pytest.mark.parametrize("tests", [(), (1.0,) * (NUM_CELLS - 1), (float("nan"),) * NUM_CELLS])
def test_rates_that_make_no_sense_are_dropped(tests: tuple[float, ...]) -> None:
    core = Drafter(LIMITS)
    before = core.rates
    core.rates_updated(Rates(tests, tests))
    assert core.rates is before
    assert core.num_stale == 1


def test_rates_rank_what_comes_after() -> None:
    bench = Bench(replace(LIMITS, growth=replace(LIMITS.growth, min_reach=0.05)))
    bench.core.rates_updated(Rates((1000.0,) * NUM_CELLS, (10.0,) * NUM_CELLS))
    bench.open()
    assert bench.grow_all() == 1  # all candidates have a reach of about 0.01


def test_mode_sd_sends_one_message_with_the_whole_chain() -> None:
    bench = Bench()
    bench.open(mode=Mode.SD)
    text: tuple[int, ...] = TEXT
    for _ in range(4):
        assert bench.grow_all() == SD_DEPTH
        grow = bench.grown()[-1]
        assert [each.token_ids[0] for each in grow.expansions] == list(chain(SD_DEPTH, text))
        assert {len(each.token_ids) for each in grow.expansions} == {1}
        assert (grow.base_len, grow.is_exhausted) == (len(text), True)
        bench.commit(text, *chain(SD_DEPTH + 1, text))
        text += chain(SD_DEPTH + 1, text)
    assert len(bench.grown()) == 4


@pytest.mark.parametrize("room", range(1, SD_DEPTH + 2))
def test_a_chain_near_the_end_is_shorter(room: int) -> None:
    bench = Bench()
    bench.open(mode=Mode.SD, max_len=len(TEXT) + room)
    bench.grow_all()
    [grow] = bench.grown()
    assert len(grow.expansions) == min(room - 1, SD_DEPTH)
    assert grow.is_exhausted


def test_a_poisoned_session_is_found_and_refused_and_the_others_are_drafted_for() -> None:
    bench = Bench()
    names = ("a", "b", "c", "d")
    for name in names:
        bench.open(session=name)
    for _ in range(2000):
        step = bench.start()
        if step is None:
            break
        num_sent = len(bench.sent)
        if any(share.session.opening.session_id == "c" for share in step.shares):
            bench.take(bench.core.step_failed(step))
        else:
            bench.finish(step)
        for message in bench.sent[num_sent:]:
            if isinstance(message, Need):
                bench.open(session=message.session_id)
    refused = [each for each in bench.sent if isinstance(each, Refused)]
    assert [(each.session_id, each.kind) for each in refused] == [("c", "Poisoned")]
    assert {each.session_id for each in bench.grown() if each.expansions} == {"a", "b", "d"}
    assert {each.opening.session_id for each in bench.core.sessions.values()} == {"a", "b", "d"}
