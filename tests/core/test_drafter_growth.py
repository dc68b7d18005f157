"""What a drafter runs, how wide, and what it sends."""

from dataclasses import replace

from tests.core.drafter_bench import LIMITS, TEXT, Bench, keys, rows


def test_growth_ends_by_itself() -> None:
    bench = Bench()
    bench.open()
    assert 0 < bench.grow_all() < 50


def test_an_urgent_frontier_is_narrow_and_then_wide() -> None:
    bench = Bench()
    bench.open(TEXT[:1])
    widths = [len(rows(bench.step())[0]) for _ in range(5)]
    assert widths[:2] == [1, 2]
    assert max(widths) == LIMITS.growth.frontier


def test_growth_stays_within_depth_and_nodes() -> None:
    bench = Bench()
    bench.open()
    bench.grow_all()
    positions = [each for message in bench.positions() for each in message]
    assert max(positions) <= len(TEXT) + LIMITS.growth.max_depth - 1
    assert len(positions) <= LIMITS.growth.max_nodes


def test_what_the_text_surely_passes_is_sent_at_once_and_the_unlikely_together() -> None:
    bench = Bench(replace(LIMITS, growth=replace(LIMITS.growth, push_reach=0.9)))
    bench.open()
    bench.grow_all()
    sizes = [len(message) for message in bench.positions()]
    assert sizes[0] == 1  # the cursor's
    assert max(sizes[1:]) > LIMITS.growth.frontier
    assert sum(sizes) == len({key for grow in bench.grown() for key in keys(grow)})


def test_every_expansion_is_sent_once() -> None:
    bench = Bench()
    bench.open()
    bench.grow_all()
    keys = [each.key for grow in bench.grown() for each in grow.expansions]
    assert len(set(keys)) == len(keys) > 10
    assert bench.grown()[-1].is_exhausted


def test_every_step_has_its_span() -> None:
    bench = Bench()
    bench.open()
    num_steps = bench.grow_all()
    spans = [span for grow in bench.grown() for span in grow.spans]
    assert [span.step for span in spans] == list(range(1, num_steps + 1))
    assert {(span.start_ns, span.end_ns) for span in spans} == {(10**9, 1_500_000_000)}


def test_sessions_share_a_step() -> None:
    bench = Bench()
    for name in ("a", "b", "c"):
        bench.open(session=name)
    assert len(rows(bench.step())) == 3


def test_every_waiting_session_gets_a_row_of_a_narrow_step() -> None:
    bench = Bench()
    for index in range(6):
        bench.open((index,), session=str(index))
    assert rows(bench.step()) == [(index,) for index in range(6)]


def test_a_session_that_has_nothing_more_does_not_narrow_the_others() -> None:
    bench = Bench(replace(LIMITS, context_len=10))
    bench.open(range(12), session="too long")
    bench.open((7,), session="b")
    widths = [len(rows(bench.step())[0]) for _ in range(5)]
    assert max(widths) == LIMITS.growth.frontier
