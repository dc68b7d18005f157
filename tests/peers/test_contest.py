"""Who is how fast, and whether all said the same: figures from answers whose times are known."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.peers.contest import Contestant, Outcome, Plan, hold, median_ratio
from benchmarks.peers.engine import CHAINS, Answer, Drafting, Task, decoded
from benchmarks.peers.foreign_load import ForeignLoad
from benchmarks.peers.identity import Difference, Judge
from benchmarks.peers.report import OURS, Report

TARGET = Path(__file__).resolve().parents[2] / "models" / "pystd" / "target"
PLAN = Plan(num_blocks=2, num_prompts=2, max_tokens=5, num_sweep_prompts=1, most_foreign=1.0)
PROMPTS = [(index,) for index in range(PLAN.num_prompts_in_all)]


class PacedEngine:
    """Takes a known time for each token; a draft of three is the fastest."""

    def __init__(self, version: str, seconds_per_token: float) -> None:
        self.version = version
        self.choices = CHAINS
        self.asked: list[Task] = []
        self._pace = seconds_per_token

    def generate(self, task: Task) -> Answer:
        self.asked.append(task)
        misses = 0 if task.drafting is None else abs(task.drafting.num_tokens - 3)
        decode_s = self._pace * (1 + misses) * (task.max_tokens - 1)
        ids = tuple(range(task.max_tokens))
        return Answer(ids, decode_s + 1.0, decode_s, task.max_tokens - 1)

    def close(self) -> None:
        pass


@pytest.fixture
def outcome() -> Outcome:
    contestants = [
        Contestant(OURS, PacedEngine("ssd-service 1", 0.010)),
        Contestant("slow, draft", PacedEngine("slow 1", 0.040), searches=True),
        Contestant("quick, draft", PacedEngine("quick 1", 0.020), searches=True),
        Contestant("quick, plain", PacedEngine("quick 1", 0.005)),
    ]
    return hold(contestants, PROMPTS, PLAN, lambda line: None, load=ForeignLoad())


def test_the_fastest_draft_of_the_sweep_is_measured(outcome: Outcome) -> None:
    chosen = {each.name: each.drafting for each in outcome.contestants}
    assert chosen["slow, draft"] == Drafting(3)
    assert chosen["quick, plain"] is None
    assert outcome.sweeps["slow, draft"]["3 tokens"] == pytest.approx(25.0)


def test_everybody_gets_every_prompt_once(outcome: Outcome) -> None:
    """Neither the warm-up's prompt nor the sweep's comes again."""
    for each in outcome.contestants:
        assert isinstance(each.engine, PacedEngine)
        measured = [task.prompt_ids for task in each.engine.asked[-4:]]
        assert sorted(measured) == PROMPTS[2:]


def test_ratios_are_of_decoding_and_against_the_best_draft(outcome: Outcome) -> None:
    report = _report(outcome, [])
    assert report.best_peer == "quick, draft"
    assert report.ratios["ssd / best peer"] == pytest.approx(2.0)
    assert median_ratio(outcome.runs, OURS, "quick, plain") == pytest.approx(0.5)


def test_disturbed_prompts_can_be_left_out(outcome: Outcome) -> None:
    disturbed = tuple(
        replace(run, foreign=0.5 if run.contestant == OURS else 0.0) for run in outcome.runs
    )
    assert median_ratio(disturbed, OURS, "quick, plain", most_foreign=0.05) is None
    assert median_ratio(disturbed, OURS, "quick, plain") == pytest.approx(0.5)


def test_work_of_others_is_foreign_and_that_of_our_processes_is_not() -> None:
    spin = [sys.executable, "-c", "while True: pass"]
    load = ForeignLoad()
    with subprocess.Popen(spin) as ours:  # bears the mark of this run
        foreign = load.share_during(lambda: time.sleep(0.5))
        load.find_ours()
        known = load.share_during(lambda: time.sleep(0.5))
        ours.kill()
    assert foreign > 0.1
    assert known < foreign


def test_the_report_is_written_whole(outcome: Outcome, tmp_path: Path) -> None:
    far = Difference("slow, draft", prompt=1, index=4, gap=0.3)
    near = Difference("quick, draft", prompt=0, index=2, gap=1e-5)
    report = _report(outcome, [far, near])
    report.draw(tmp_path / "peers.svg")
    written = json.loads(json.dumps(report.as_json()))
    assert not written["identical"]
    assert [each["same_ids"] for each in written["results"]] == [
        "equal",
        "1 texts differ",
        "equal (1 near-ties)",
        "equal",
    ]
    assert "| quick, draft | 3 tokens | 50 | 50-50 | 50 |" in report.table()
    assert (tmp_path / "peers.svg").stat().st_size > 1000


def test_tokens_of_the_first_arrival_do_not_count() -> None:
    assert decoded([(1.0, 2), (1.5, 1), (3.0, 3)]) == (2.0, 4)


def test_a_judge_tells_the_gap_of_the_first_difference() -> None:
    judge = Judge(TARGET)
    prompt = (735, 604, 199)
    assert judge.first_difference("x", 0, prompt, ((1, 2), (1, 2))) is None
    found = judge.first_difference("x", 0, prompt, ((735, 5, 9), (735, 6, 9)))
    assert found is not None
    assert (found.index, found.is_near_tie) == (1, False)
    shorter = judge.first_difference("x", 0, prompt, ((1, 2), (1,)))
    assert shorter is not None
    assert not shorter.is_near_tie


def _report(outcome: Outcome, differences: list[Difference]) -> Report:
    return Report(PLAN, outcome, "widths 1,1", differences, 0, {"hit_rate": 0.5})
