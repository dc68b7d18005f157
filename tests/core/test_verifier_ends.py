"""A text ends at the first stop token or at its limit, wherever drafts stand."""

import itertools

import pytest

from ssd.core.ids import SessionId
from ssd.core.messages import (
    Close,
    FinishReason,
    Open,
)
from ssd.core.rounds import Lookup
from tests.core.verifier_bench import (
    TEXT,
    Bench,
    plain,
)


@pytest.mark.parametrize(
    ("stop", "limit", "depth"), list(itertools.product(range(1, 7), range(1, 8), range(6)))
)
def test_the_first_end_in_the_text_wins(stop: int, limit: int, depth: int) -> None:
    """Case A1: stop token at output index `stop`, `limit` tokens allowed, `depth` drafted."""
    text = TEXT
    stops = {plain(stop)[-1]}
    bench = Bench()
    bench.attach()
    bench.open(text, max_len=len(text) + limit, stops=tuple(stops))
    bench.prefill()
    while bench.core.sessions:
        bench.grow_chain(depth, text=bench.core.sessions[SessionId("a")].token_ids)
        bench.round()
    expected = plain(limit, stops=tuple(stops))
    is_stopped = expected[-1] in stops
    assert bench.text() == expected
    assert bench.end().reason is (FinishReason.STOP if is_stopped else FinishReason.LENGTH)
    assert bench.end().total_len == len(TEXT) + len(expected)
    assert bench.core.num_reserved_slots == 0
    assert not bench.memory.kv_ids


def test_a_stop_inside_an_accepted_path_ends_the_text_there() -> None:
    """Case A2: nothing after it is in the commit, in its figures, or at the drafter."""
    bench = Bench()
    bench.attach()
    bench.open(stops=plain(3)[2:])
    bench.grow_chain(6)
    bench.prefill()
    bench.run_out()
    [commit] = bench.commits()
    assert commit.token_ids == plain(3)
    assert commit.record is not None
    assert (commit.record.num_accepted, commit.record.num_tested) == (3, 3)
    assert commit.record.lookup is Lookup.LAST
    assert bench.told_drafters == [Open, Close]


@pytest.mark.parametrize("depth", range(1, 6))
@pytest.mark.parametrize("excess", [-1, 0, 1, 2])
def test_a_limit_near_the_depth_gives_exactly_that_many_tokens(depth: int, excess: int) -> None:
    """Case A3: max_tokens 1 to depth + 2 with everything accepted."""
    limit = max(depth + excess, 1)
    bench = Bench()
    bench.attach()
    bench.open(max_len=len(TEXT) + limit)
    bench.grow_chain(depth)
    bench.prefill()
    assert bench.round().num_rows <= limit  # a row more could not be accepted
    bench.run_out()
    assert bench.text() == plain(limit)


def test_a_text_may_fill_the_context_exactly() -> None:
    bench = Bench()
    bench.attach()
    text = tuple(range(10)) * 6
    bench.open(text, max_len=64)
    bench.grow_chain(8, text=text)
    bench.run_out()
    assert bench.end().total_len == 64
