"""`ssd config check` and `ssd config show`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ssd.cli.config import app
from ssd.config import settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ssd.yaml"
    path.write_text("verifier: {max_rows: 64}", "utf-8")
    return path


def test_check_accepts_a_good_file(file: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(file)])
    assert (result.exit_code, result.stdout) == (0, f"{file}: ok\n")


def test_check_refuses_a_bad_file_with_one_sentence_on_stderr(file: Path) -> None:
    file.write_text("verifier: {max_rowz: 64}", "utf-8")
    result = CliRunner().invoke(app, ["check", str(file)])
    sentence = f"{file}: unknown key verifier.max_rowz; did you mean verifier.max_rows?\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", sentence)


def test_check_is_not_led_by_the_environment(file: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(file)], env={"SSD_NO_SUCH": "1"})
    assert result.exit_code == 0


def test_show_names_values_and_origins(file: Path) -> None:
    arguments = ["show", "--json", "--config", str(file), "--set", "drafter.max_depth=5"]
    result = CliRunner().invoke(app, arguments, env={"SSD_VERIFIER__PORT": "7"})
    report = json.loads(result.stdout)
    chosen = ("verifier.max_rows", "verifier.port", "drafter.max_depth", "drafter.frontier")
    assert {key: (report["values"][key], report["origins"][key]) for key in chosen} == {
        "verifier.max_rows": (64, f"file {file}"),
        "verifier.port": (7, "environment SSD_VERIFIER__PORT"),
        "drafter.max_depth": (5, "flag"),
        "drafter.frontier": (12, "default"),
    }


def test_show_prints_one_line_per_setting(file: Path) -> None:
    result = CliRunner().invoke(app, ["show", "--config", str(file)])
    assert len(result.stdout.splitlines()) == len(settings())


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("drafter.max_depth", "flag: --set takes KEY=VALUE, not 'drafter.max_depth'"),
        (
            "drafter.max_depth=0",
            "flag: drafter.max_depth must be a whole number at least 1, not '0'",
        ),
    ],
)
def test_show_refuses_a_bad_flag(file: Path, assignment: str, said: str) -> None:
    result = CliRunner().invoke(app, ["show", "--config", str(file), "--set", assignment])
    assert (result.exit_code, result.stderr) == (2, said + "\n")
