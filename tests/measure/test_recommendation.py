"""Figures of runs made by hand, and what follows from them."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ssd.core.messages import FinishReason
from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, Lookup, RoundRecord
from ssd.core.speculation_limits import SpeculationLimits
from ssd.measure import Measurement, Way, measured_table, recommend, report_json
from ssd.measure.picture import draw_measured
from ssd.report import Request, RunRecord

MS = 1_000_000
NUM_TOKENS = 60


def _measured(
    mode: Mode,
    *,
    accepted: int = 0,
    verify_ms: int = 10,
    wait_ms: int = 1,
    step_ms: int = 2,
    temperature: float = 0.0,
    nodes: int = 4,
) -> Measurement:
    """Rounds that all accept as much, and growth steps without a pause."""
    num_rounds = NUM_TOKENS // (accepted + 1)
    cycle_ms = verify_ms + wait_ms
    is_plain = mode is Mode.AR
    rounds = tuple(
        RoundRecord(
            round_id=index,
            base_len=5,
            launch_ns=(index * cycle_ms + wait_ms) * MS,
            end_ns=(index + 1) * cycle_ms * MS,
            wait_ns=wait_ms * MS,
            num_proposed=0 if is_plain else nodes,
            num_accepted=accepted,
            num_tested=0 if is_plain else min(accepted + 1, nodes),
            num_batch_rows=1 if is_plain else 1 + nodes,
            lookup=Lookup.LAST if index == num_rounds - 1 else Lookup.HIT,
            tree_depth=0 if is_plain else nodes,
        )
        for index in range(num_rounds)
    )
    steps = 0 if is_plain else num_rounds * cycle_ms // step_ms
    growth = tuple(
        GrowthSpan(index, 5, index * step_ms * MS, (index + 1) * step_ms * MS, 4)
        for index in range(steps)
    )
    request = Request(mode, temperature, 1, "line 1", "words", NUM_TOKENS)
    seconds = num_rounds * cycle_ms / 1e3
    run = RunRecord(
        request,
        "words",
        tuple(range(NUM_TOKENS)),
        FinishReason.LENGTH,
        first_token_s=0.1,
        last_token_s=0.1 + seconds,
        rounds=rounds,
        growth=growth,
    )
    drafter = "" if is_plain else "model"
    return Measurement(Way(mode, drafter, SpeculationLimits()), temperature, (run,))


def test_figures_are_those_of_the_rounds() -> None:
    way = _measured(Mode.SSD, accepted=2)
    assert way.tokens_per_s == pytest.approx(57 / (19 * 0.011))
    assert way.client_tokens_per_s == pytest.approx(59 / 0.22)
    assert way.acceptance == pytest.approx(2 / 3)
    assert way.node_yield == pytest.approx(0.5)
    assert way.tokens_per_round == 3.0
    assert way.hit_rate == 1.0
    assert way.verify_share == pytest.approx(10 / 11, rel=0.01)
    assert way.draft_share == pytest.approx(1.0, rel=0.02)
    assert (way.verify_s, way.between_s, way.step_s) == pytest.approx((0.010, 0.001, 0.002))
    assert (way.rows, way.tree_nodes, way.tree_depth, way.useful_depth) == (5, 4, 4, 2)


def test_steps_that_follow_a_pause_do_not_count_as_slow() -> None:
    way = _measured(Mode.SSD, accepted=2)
    [run] = way.runs
    later = GrowthSpan(99, 5, 10**12, 10**12 + 2 * MS, 4)
    paused = replace(way, runs=(replace(run, growth=(*run.growth, later)),))
    assert paused.step_s == way.step_s


def test_what_pays_is_recommended_with_its_depth() -> None:
    measured = [
        _measured(Mode.AR),
        _measured(Mode.SD, accepted=2, wait_ms=8),
        _measured(Mode.SSD, accepted=3),
    ]
    [recommendation] = recommend(measured)
    assert recommendation.best is not None
    assert recommendation.best.measured is measured[2]
    assert recommendation.best.speed_up == pytest.approx(4.0)
    assert recommendation.words == (
        "ssd model, max_depth 3: 4.00 times plain decoding, 4.00 tokens per round"
    )


def test_an_expectation_is_near_what_ideal_rounds_do() -> None:
    """Acceptance 0.75 in chains of 4: 3.05 tokens in a verification and four steps."""
    measured = [
        _measured(Mode.AR),
        _measured(Mode.SD, accepted=3, wait_ms=9),
        _measured(Mode.SSD, accepted=3),
    ]
    sd, ssd = recommend(measured)[0].ways
    assert sd.expected == pytest.approx(3.05 * 11 / (11 + 4 * 2), rel=0.15)
    assert sd.expected is not None
    assert ssd.expected is not None
    assert ssd.expected > sd.expected


def test_what_does_not_pay_is_advised_against_with_reasons() -> None:
    measured = [
        _measured(Mode.AR, temperature=1.0),
        _measured(Mode.SSD, accepted=0, step_ms=6, wait_ms=12, temperature=1.0),
    ]
    [recommendation] = recommend(measured)
    assert recommendation.best is None
    for words in (
        "do not speculate here, because the best of it, ssd model, is 0.50 times plain",
        "of the drafts tested 0% are accepted",
        "a round brings 1.00 tokens",
        "a growth step takes 0.60 of a verification",
        "the verifier verifies 4",
        "a temperature of 1",
    ):
        assert words in recommendation.words


def test_every_temperature_has_its_own_recommendation(tmp_path: Path) -> None:
    measured = [
        _measured(mode, accepted=0 if mode is Mode.AR else accepted, temperature=temperature)
        for temperature, accepted in ((1.0, 0), (0.0, 3))
        for mode in (Mode.AR, Mode.SD, Mode.SSD)
    ]
    recommendations = recommend(measured)
    assert [each.temperature for each in recommendations] == [0.0, 1.0]
    assert [each.best is None for each in recommendations] == [False, True]
    report = report_json(recommendations)
    assert report["identical_to_ar"]
    assert [each["speculate"] for each in report["recommendations"]] == [True, False]
    assert len(report["ways"]) == 6
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(measured_table(recommendations))
    said = console.export_text()
    assert said.count("ssd model") == 2
    assert "4.00" in said
    draw_measured(recommendations, tmp_path / "deep" / "measured.png")
    assert (tmp_path / "deep" / "measured.png").stat().st_size > 5000


def test_a_way_that_changed_a_text_is_told() -> None:
    measured = [_measured(Mode.AR), _measured(Mode.SSD, accepted=3)]
    [run] = measured[1].runs
    measured[1] = replace(measured[1], runs=(replace(run, token_ids=(9, *run.token_ids[1:])),))
    assert not report_json(recommend(measured))["identical_to_ar"]
