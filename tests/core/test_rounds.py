"""Every figure of a request, by hand and by brute force."""

import random

import pytest

from ssd.core.rounds import GrowthSpan, Lookup, RoundRecord, figures_of

MS = 1_000_000


def _round(
    launch_ms: float,
    end_ms: float,
    *,
    accepted: int = 0,
    tested: int = 0,
    proposed: int = 0,
    lookup: Lookup = Lookup.HIT,
    wait_ms: float = 0.0,
    steps: tuple[int, ...] = (),
) -> RoundRecord:
    return RoundRecord(
        round_id=0,
        base_len=0,
        launch_ns=round(launch_ms * MS),
        end_ns=round(end_ms * MS),
        wait_ns=round(wait_ms * MS),
        num_proposed=proposed,
        num_accepted=accepted,
        num_tested=tested,
        num_batch_rows=proposed + 1,
        lookup=lookup,
        verified_steps=steps,
    )


def _span(step: int, start_ms: float, end_ms: float) -> GrowthSpan:
    return GrowthSpan(step, 0, round(start_ms * MS), round(end_ms * MS), 1)


#  ms     0         10        20        30        40
#  verify [── 1 ──]  [── 2 ──]    [──── 3 ────]
#  draft     [a]    [b ]    [c][d]       [ e ]
ROUNDS = [
    _round(0, 9, accepted=2, tested=3, proposed=5, lookup=Lookup.HIT, wait_ms=1),
    _round(10, 20, accepted=0, tested=1, proposed=4, lookup=Lookup.MISS_KEY, steps=(1,)),
    _round(25, 40, accepted=1, tested=1, proposed=1, lookup=Lookup.LAST, wait_ms=5, steps=(4,)),
]
GROWTH = [
    _span(1, 3, 6),  # wholly under the first round; verified
    _span(2, 8, 12),  # 1 ms under the first, 2 ms under the second
    _span(3, 18, 22),  # 2 ms under the second
    _span(4, 22, 24),  # between rounds; verified
    _span(5, 30, 36),  # 6 ms under the third
]
FIGURES = figures_of(ROUNDS, GROWTH, num_tokens=6)


def test_acceptance_is_accepted_of_tested() -> None:
    assert FIGURES.acceptance == pytest.approx(3 / 5)


def test_node_yield_is_accepted_of_proposed() -> None:
    assert FIGURES.node_yield == pytest.approx(3 / 10)


def test_the_hit_rate_leaves_out_the_last_commit() -> None:
    assert FIGURES.hit_rate == pytest.approx(1 / 2)
    assert FIGURES.misses == {Lookup.MISS_ABSENT: 0, Lookup.MISS_KEY: 1, Lookup.MISS_LATE: 0}


def test_busy_is_verify_time_of_the_whole() -> None:
    assert FIGURES.busy == pytest.approx(34 / 40)


def test_overlap_is_the_draft_time_under_verifications() -> None:
    assert FIGURES.overlap == pytest.approx((3 + 3 + 2 + 0 + 6) / 19)


def test_useful_overlap_counts_steps_that_were_verified() -> None:
    assert FIGURES.useful_overlap == pytest.approx((3 + 0) / (3 + 2))


def test_the_useful_share_is_their_part_of_the_draft_time() -> None:
    assert FIGURES.useful_share == pytest.approx((3 + 2) / 19)


def test_times_are_means_over_rounds() -> None:
    assert FIGURES.verify_ms == pytest.approx(34 / 3)
    assert FIGURES.wait_ms == pytest.approx(6 / 3)


def test_tokens_per_round_count_what_was_delivered() -> None:
    assert FIGURES.tokens_per_round == pytest.approx(2.0)


def test_acceptance_by_depth_counts_rounds() -> None:
    assert FIGURES.accepted_at_depth == (2, 1)


def test_growth_outside_the_request_is_left_out() -> None:
    outside = [_span(8, -5, -1), _span(9, 41, 43)]
    assert figures_of(ROUNDS, GROWTH + outside, num_tokens=6) == FIGURES


def test_a_request_without_rounds_has_figures_of_zero() -> None:
    figures = figures_of([], [_span(1, 0, 1)], num_tokens=0)
    ratios = (
        figures.acceptance,
        figures.node_yield,
        figures.hit_rate,
        figures.busy,
        figures.overlap,
        figures.useful_overlap,
        figures.tokens_per_round,
        figures.verify_ms,
        figures.wait_ms,
    )
    assert set(ratios) == {0.0}
    assert figures.accepted_at_depth == ()


def test_rounds_without_drafts_or_time_divide_nothing_by_zero() -> None:
    figures = figures_of([_round(1, 1, lookup=Lookup.LAST)], [_span(1, 1, 1)], num_tokens=1)
    assert figures.acceptance == figures.node_yield == figures.hit_rate == 0.0
    assert figures.busy == figures.overlap == 0.0


@pytest.mark.parametrize("seed", range(50))
def test_overlap_equals_a_count_of_instants(seed: int) -> None:
    rng = random.Random(seed)
    rounds, now = [], 0
    for _ in range(rng.randint(1, 6)):
        launch = now + rng.randint(0, 5)
        now = launch + rng.randint(0, 8)
        rounds.append(_round(launch, now))
    first, last = rounds[0].launch_ns // MS, now
    growth = []
    for step in range(rng.randint(0, 10)):  # those of two drafters may overlap one another
        start = rng.randint(first, last)
        growth.append(_span(step, start, rng.randint(start, last)))
    rng.shuffle(rounds)
    rng.shuffle(growth)
    shared = sum(
        span.start_ns <= instant * MS < span.end_ns and each.launch_ns <= instant * MS < each.end_ns
        for instant in range(first, last)
        for span in growth
        for each in rounds
    )
    total = sum(span.end_ns - span.start_ns for span in growth) // MS
    overlap = figures_of(rounds, growth, num_tokens=1).overlap
    assert overlap == pytest.approx(shared / total if total else 0.0)
