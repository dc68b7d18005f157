"""The figures of runs that were made by hand."""

import pytest

from ssd.core.mode import Mode
from ssd.core.rounds import Lookup
from ssd.core.rule import Rule
from ssd.service_bench.block import Block, Wave, figures_of
from ssd.service_bench.race import Outcome, Plan, median_ratio
from ssd.service_bench.regime import Cost, Regime, Widths
from ssd.service_bench.results import Conditions, as_json, ratios_of, results_of
from ssd.service_bench.tables import ratio_lines, results_table
from tests.service_bench.synthetic import lane_of, round_of, run_of, span_of

ROUNDS = [
    round_of(1, 0, 20, Lookup.HIT),
    round_of(2, 21, 41, Lookup.MISS_LATE),
    round_of(3, 46, 66, Lookup.LAST),
]
CONDITIONS = Conditions(
    pair="pystd",
    regime=Regime.PAPER,
    workload="code",
    dtype="fp32",
    cost=Cost(20.0, 2.6),
    widths=Widths(6144, 1024),
    plan=Plan(num_blocks=3, num_prompts=1),
    gpu_hour_price=2.0,
)


def test_speed_counts_what_comes_after_the_first_token() -> None:
    block = Block((Wave((run_of("a", range(11), 2.0),)), Wave((run_of("b", range(6), 1.0),))))
    assert block.tokens_per_s == pytest.approx((10 + 5) / 3.0)


def test_sessions_at_once_share_the_time_from_the_first_token_of_any_to_the_last() -> None:
    wave = Wave((run_of("a", range(11), 2.0), run_of("b", range(11), 2.0, first_s=0.5)))
    assert Block((wave,)).tokens_per_s == pytest.approx(20 / 2.5)


def test_a_verification_of_two_sessions_is_busy_once() -> None:
    wave = Wave(
        (run_of("a", range(9), 1.0, rounds=ROUNDS), run_of("b", range(9), 1.0, rounds=ROUNDS))
    )
    figures = figures_of([Block((wave,))], lambda run: 0.0)
    assert figures.busy == pytest.approx(60 / 66)
    assert figures.tokens_per_round == pytest.approx(3.0)


def test_what_the_service_costs_is_counted_after_hits_alone() -> None:
    figures = figures_of(
        [Block((Wave((run_of("a", range(9), 1.0, rounds=ROUNDS),)),))], lambda run: 0.0
    )
    assert figures.gap_ms == pytest.approx(3.0)  # of 1 and 5
    assert figures.hit_gap_ms == pytest.approx(1.0)
    assert figures.hit_rate == 0.5  # the last commit is looked up by nobody
    assert figures.misses == {"late": 1, "key": 0, "absent": 0}
    assert figures.acceptance == pytest.approx(2 / 3)


def test_a_growth_step_of_two_sessions_is_one_step() -> None:
    growth = [span_of(1, 1, 4), span_of(2, 22, 24)]
    runs = [run_of(name, range(9), 1.0, rounds=ROUNDS, growth=growth) for name in "ab"]
    figures = figures_of([Block((Wave(tuple(runs)),))], lambda run: 0.0)
    assert figures.draft_step_ms == pytest.approx(2.5)
    assert figures.steps_per_round == pytest.approx(2 / 3)


def test_ratios_are_medians_over_blocks_and_not_ratios_of_medians() -> None:
    fast, slow = lane_of("ssd", Mode.SSD, (1, 1, 4)), lane_of("sd", Mode.SD, (2, 3, 4))
    assert median_ratio(fast, slow) == pytest.approx(2.0)


def test_a_text_unlike_plain_decoding_is_found() -> None:
    plain, same = lane_of("ar", Mode.AR, (3, 3, 3)), lane_of("sd", Mode.SD, (2, 2, 2))
    other = lane_of("ssd", Mode.SSD, (1, 1, 1), token_id=8)
    results = results_of(Outcome((plain, same, other), {}), Plan(), dtype="fp32")
    assert [each.identical for each in results] == [True, True, False]


def test_draws_of_rule_ratio_are_not_compared() -> None:
    lanes = (lane_of("ar", Mode.AR, (3,)), lane_of("ssd", Mode.SSD, (1,), token_id=8))
    plan = Plan(rule=Rule.RATIO, temperature=1.0)
    assert {each.identical for each in results_of(Outcome(lanes, {}), plan, dtype="fp32")} == {None}


def test_texts_of_a_rounded_target_are_counted_and_need_not_be_the_same() -> None:
    lanes = (lane_of("ar", Mode.AR, (3,)), lane_of("ssd", Mode.SSD, (1,), token_id=8))
    plain, other = results_of(Outcome(lanes, {}), Plan(), dtype="bf16")
    assert (plain.identical, other.identical) == (None, None)
    assert (plain.num_same, other.num_same, other.num_texts) == (1, 0, 1)
    cells = list(results_table(CONDITIONS, [plain, other]).columns[-1].cells)
    assert cells == ["1/1", "0/1"]


def test_the_report_has_the_agreed_keys() -> None:
    lanes = (
        lane_of("ar", Mode.AR, (4, 4, 4)),
        lane_of("sd", Mode.SD, (2, 2, 2)),
        lane_of("ssd", Mode.SSD, (1, 1, 1)),
    )
    outcome = Outcome(lanes, {"sd": {1: 10.0, 2: 12.0}})
    report = as_json(CONDITIONS, outcome, results_of(outcome, CONDITIONS.plan, dtype="fp32"))
    expected = {
        *("mode", "regime", "rule", "temperature", "sessions", "tokens_per_s"),
        *("tokens_per_round", "acceptance", "hit_rate", "miss", "verify_ms", "draft_step_ms"),
        *("wait_ms", "verifier_busy", "tokens_per_s_per_device", "identical"),
    }
    assert all(expected <= each.keys() for each in report["results"])
    assert all(each["padded"] for each in report["results"])
    assert report["ratios"] == {"ssd_over_sd": 2.0, "ssd_over_ar": 4.0, "sd_over_ar": 2.0}
    assert report["sweeps"] == {"sd": {1: 10.0, 2: 12.0}}
    assert report["calibration"]["ratio"] == pytest.approx(0.13)


def test_drafting_is_paid_for_with_a_second_device() -> None:
    lanes = (lane_of("ar", Mode.AR, (1,)), lane_of("ssd", Mode.SSD, (0.5,)))
    plain, ssd = results_of(Outcome(lanes, {}), Plan(), dtype="fp32")
    assert plain.tokens_per_s_per_device == pytest.approx(10.0)
    assert ssd.tokens_per_s_per_device == pytest.approx(10.0)
    assert plain.price_per_million(36.0) == pytest.approx(1000.0)


def test_every_row_of_the_table_says_padded() -> None:
    lanes = (lane_of("ar", Mode.AR, (4, 4, 4)), lane_of("ssd", Mode.SSD, (1, 1, 1)))
    results = results_of(Outcome(lanes, {}), CONDITIONS.plan, dtype="fp32")
    table = results_table(CONDITIONS, results)
    assert list(table.columns[1].cells) == ["yes", "yes"]
    assert ratio_lines(results) == ["1 session: ssd / ar 4.00"]
    assert set(ratios_of(results, 1)) == {"ssd_over_ar"}
