"""The benchmark measures what it says, and says what it measured."""

import json
from pathlib import Path

import torch
from typer.testing import CliRunner

from ssd.bench import ENGINE_MEASUREMENTS, Figure, figures_table, report_json
from ssd.bench.bare_forward import BareForward
from ssd.bench.rows import prompt_rows, tree_rows
from ssd.bench.shapes import Shape
from ssd.cli.main import app
from ssd.core.ids import KvId
from ssd.engine.lean_runner import LeanRunner

TINY = Shape(32, 48, 2, 4, 2, vocab_size=64)


def test_the_bare_forward_says_what_the_runner_says() -> None:
    runner = LeanRunner(TINY.build(torch.float64), prepack=False)
    groups = []
    for name in ("a", "b"):
        runner.forward([prompt_rows(KvId(name), 0, 20)])
        groups.append(tree_rows(KvId(name), past_len=20, num_nodes=5))
    expected = runner.forward(groups)
    torch.testing.assert_close(BareForward(runner, groups)(), expected.float())


def test_a_figure_is_held_to_its_limit() -> None:
    assert Figure("a", 1.1, "x", 1.1).is_met
    assert not Figure("a", 1.2, "x", 1.1).is_met
    assert Figure("a", 99.0, "ms").is_met


def test_the_report_names_every_figure() -> None:
    figures = [Figure("a", 1.0, "x", 2.0), Figure("b", 3.0, "ms", None, "note")]
    report = report_json(figures)
    assert [each["name"] for each in report["figures"]] == ["a", "b"]
    assert figures_table(figures).row_count == 2


def test_measurements_have_a_name_and_a_sentence() -> None:
    names = [each.name for each in ENGINE_MEASUREMENTS]
    assert len(set(names)) == len(names)
    assert all(each.summary.endswith(".") for each in ENGINE_MEASUREMENTS)


def test_an_unknown_measurement_is_refused_with_the_known_ones() -> None:
    result = CliRunner().invoke(app, ["bench", "engine", "--only", "nonsense"])
    assert result.exit_code != 0
    assert "no measurement nonsense" in result.output


def test_the_command_writes_its_figures(tmp_path: Path) -> None:
    file = tmp_path / "out" / "engine.json"
    result = CliRunner().invoke(app, ["bench", "engine", "--only", "draws", "--json", str(file)])
    assert result.exit_code in {0, 1}, result.output
    figures = json.loads(file.read_text())["figures"]
    assert [each["limit"] for each in figures] == [1.5, 1.5, 1.5]
    assert all(each["value"] > 0 for each in figures)
