"""A run's own figures, and its entry in the report."""

import json
from dataclasses import replace

import pytest

from ssd.core.mode import Mode
from ssd.core.rounds import figures_of
from tests.report.synthetic_runs import all_runs, report_of, run_record

RUN_KEYS = {
    *("mode", "temperature", "seed", "prompt", "tokens", "tokens_per_s", "tokens_per_round"),
    *("acceptance", "hit_rate", "misses", "verifier_busy", "overlap", "useful_overlap"),
    *("identical_to_ar", "text", "token_ids", "finish_reason", "verify_ms", "wait_ms"),
}


def test_speed_leaves_out_the_first_token_and_the_wait_for_it() -> None:
    assert run_record(token_ids=tuple(range(51)), seconds=0.5).tokens_per_s == pytest.approx(100)


@pytest.mark.parametrize("token_ids", [(), (7,)])
def test_a_text_without_a_second_token_has_no_speed(token_ids: tuple[int, ...]) -> None:
    run = replace(run_record(token_ids=token_ids), last_token_s=0.1)
    assert run.tokens_per_s == 0.0


def test_the_verifiers_speed_is_by_its_own_clock() -> None:
    run = run_record(token_ids=tuple(range(11)), seconds=100.0)
    span_s = (run.rounds[-1].end_ns - run.rounds[0].end_ns) / 1e9
    assert run.verifier_tokens_per_s == pytest.approx(10 / span_s)


def test_tokens_cannot_end_before_they_begin() -> None:
    with pytest.raises(ValueError, match="before the first"):
        run_record(seconds=-0.01)


def test_figures_are_those_of_the_core() -> None:
    run = run_record()
    assert run.figures == figures_of(run.rounds, run.growth, num_tokens=96)


def test_the_report_has_an_entry_per_run_with_every_figure() -> None:
    report = json.loads(json.dumps(report_of(all_runs()).as_json()))
    assert len(report["runs"]) == 18
    assert all(run.keys() >= RUN_KEYS for run in report["runs"])
    assert {"target", "draft", "dtype", "exactness", "identical_to_ar"} <= report.keys()


def test_an_entry_says_what_ran_and_what_came() -> None:
    entry = run_record(Mode.SD, temperature=1.0).as_json(identical_to_ar=True)
    assert (entry["mode"], entry["temperature"], entry["prompt"]) == ("sd", 1.0, "the opening")
    assert (entry["tokens"], entry["rounds"], entry["tokens_per_round"]) == (96, 32, 3.0)
    assert entry["misses"] == {"late": 6, "key": 6, "absent": 0}


def test_a_text_that_came_at_once_is_reported_as_a_burst() -> None:
    evenly = all_runs()
    even_s = 95 / evenly[0].verifier_tokens_per_s
    evenly = [replace(run, last_token_s=run.first_token_s + even_s) for run in evenly]
    assert not report_of(evenly).came_in_bursts
    hurried = replace(evenly[0], last_token_s=evenly[0].first_token_s + even_s / 2)
    assert report_of([hurried, *evenly[1:]]).came_in_bursts
