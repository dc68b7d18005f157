"""A simulated pair against what can be computed by hand."""

from dataclasses import replace

import pytest

from ssd.core.growth import GrowthLimits
from ssd.core.mode import Mode
from ssd.simulate import Costs, Scenario, SyntheticText, simulate

COSTS = Costs(verify_s=0.018, verify_row_s=0.0, step_s=0.0024, step_row_s=0.0)
SCENARIO = Scenario(COSTS, SyntheticText(0.8), num_tokens=1024)


def test_plain_decoding_makes_one_token_a_verification() -> None:
    outcome = simulate(replace(SCENARIO, mode=Mode.AR))
    assert outcome.tokens_per_s == pytest.approx(1 / 0.018, rel=0.01)
    assert outcome.tokens_per_round == 1.0
    assert outcome.hit_rate is None


def test_a_chain_brings_what_the_formula_says() -> None:
    outcome = simulate(replace(SCENARIO, mode=Mode.SD, chain_depth=4))
    expected = (1 - 0.8**5) / (1 - 0.8)
    assert outcome.tokens_per_round == pytest.approx(expected, rel=0.07)
    assert outcome.tokens_per_s == pytest.approx(expected / (0.018 + 4 * 0.0024), rel=0.07)


def test_growing_ahead_hides_the_drafter() -> None:
    sd, ssd = (simulate(replace(SCENARIO, mode=mode)) for mode in (Mode.SD, Mode.SSD))
    assert ssd.tokens_per_s > 1.2 * sd.tokens_per_s
    assert ssd.verifier_busy > 0.9
    assert ssd.hit_rate is not None
    assert ssd.hit_rate > 0.8


def test_a_run_is_the_same_every_time() -> None:
    assert simulate(SCENARIO) == simulate(SCENARIO)


def test_delay_costs_speculative_decoding_more_than_growing_ahead() -> None:
    far = replace(SCENARIO, costs=replace(COSTS, delay_s=0.002))
    loss = {
        mode: simulate(replace(far, mode=mode)).tokens_per_s
        / simulate(replace(SCENARIO, mode=mode)).tokens_per_s
        for mode in (Mode.SD, Mode.SSD)
    }
    assert loss[Mode.SD] < 0.9 < loss[Mode.SSD]


def test_in_step_a_round_takes_a_whole_batch_of_the_drafter() -> None:
    """As in the paper's implementation: drafter-bound, deeper lookahead is slower."""
    slow_draft = replace(COSTS, step_s=0.006, glue_s=0.003)
    growth = GrowthLimits(frontier=16, urgent_frontier=16, max_depth=12, push_reach=0.0)
    in_step = replace(SCENARIO, costs=slow_draft, in_step=True, growth=growth)
    speeds = [
        simulate(replace(in_step, chain_depth=depth, max_nodes=depth)).tokens_per_s
        for depth in (4, 6)
    ]
    tokens = (1 - 0.8**5) / (1 - 0.8)
    assert speeds[0] > speeds[1]
    assert speeds[0] <= 1.03 * tokens / (4 * 0.006 + 0.003)


@pytest.mark.parametrize("num_drafters", [1, 2])
def test_many_sessions_all_end(num_drafters: int) -> None:
    crowd = replace(SCENARIO, num_sessions=16, num_tokens=64, num_drafters=num_drafters)
    outcome = simulate(crowd)
    assert outcome.tokens_per_s > simulate(replace(SCENARIO, num_tokens=64)).tokens_per_s
