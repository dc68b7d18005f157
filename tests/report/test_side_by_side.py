"""The plan, the table and the words on the screen."""

import io

from rich.console import Console

from ssd.core.mode import Mode
from ssd.report import Comparison, Plan, results_table
from ssd.report.live_text import printable
from ssd.report.prompts import PLAIN, TALES
from ssd.report.side_by_side import MODES
from tests.report.synthetic_runs import all_runs, run_record

PLAN = Plan(TALES, (0.0, 1.0), seed=3, max_tokens=96)


def test_every_mode_is_asked_the_same_questions() -> None:
    questions = [[each.question for _, each in PLAN.requests(mode)] for mode in MODES]
    assert len(questions[0]) == len(set(questions[0])) == 6
    assert all(each == questions[0] for each in questions)


def test_a_warm_up_is_short() -> None:
    assert PLAN.warm_up(Mode.SD).max_tokens < 96
    assert PLAN.warm_up(Mode.SD).mode is Mode.SD


def test_prompts_for_any_model_hold_no_special_tokens() -> None:
    assert not any("<|" in each.text for each in PLAIN)
    assert any("<|user|>" in each.text for each in TALES)


def test_the_screen_gets_no_control_characters() -> None:
    assert printable("a\x1b[2J\tb\r\nc") == "a�[2J\tb�\nc"


def printed(comparison: Comparison) -> str:
    page = io.StringIO()
    Console(file=page, width=80).print(results_table(comparison))
    return page.getvalue()


def test_the_table_has_a_row_per_mode_and_temperature_and_fits_80_columns() -> None:
    lines = printed(Comparison(tuple(all_runs()))).splitlines()
    rows = [line.split() for line in lines if line[:3].strip() in list(Mode)]
    assert [row[:2] for row in rows] == [
        *(["ssd", "0"], ["sd", "0"], ["ar", "0"]),
        *(["ssd", "1"], ["sd", "1"], ["ar", "1"]),
    ]
    assert all(row[-1] == "yes" for row in rows)
    assert "…" not in "".join(lines)


def test_the_table_takes_the_median_over_prompts() -> None:
    speeds = {"opening": 1.0, "request": 0.5, "copy": 0.25}
    runs = [
        run_record(mode, prompt=prompt, seconds=seconds)
        for mode in (Mode.SSD, Mode.AR)
        for prompt, seconds in speeds.items()
    ]
    assert "190" in printed(Comparison(tuple(runs)))


def test_the_table_marks_the_mode_that_differs() -> None:
    runs = (run_record(Mode.AR), run_record(), run_record(Mode.SD, token_ids=(1, 2)))
    rows = [line.split() for line in printed(Comparison(runs)).splitlines()]
    assert {row[0]: row[-1] for row in rows if row and row[0] in list(Mode)} == {
        "ssd": "yes",
        "sd": "NO",
        "ar": "yes",
    }
