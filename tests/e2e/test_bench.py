"""`ssd bench` as a user runs it: real processes, a tiny pair in float64."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ssd.cli.main import app
from tests.models.tiny_pair import write_tiny_pair

SSD = Path(sys.executable).with_name("ssd")


@pytest.mark.timeout(120)
def test_a_small_bench_runs_the_service_and_reports(tmp_path: Path) -> None:
    pair, report = write_tiny_pair(tmp_path), tmp_path / "out" / "bench.json"
    temporary = tempfile.mkdtemp(prefix="ssd-b-", dir="/tmp")  # socket paths must be short
    command = [
        *(str(SSD), "bench", "--pair", str(pair.target), "--set", f"models.draft={pair.draft}"),
        *("--dtype", "fp64", "--set", "models.draft_dtype=fp64", "--regime", "plain"),
        *("--workload", "creative", "--mode", "ar", "--mode", "sd", "--mode", "ssd"),
        *("--blocks", "1", "--prompts", "1", "--tokens", "16", "--sd-depth", "2"),
        *("--json", str(report), "--plots", str(tmp_path / "out")),
    ]
    try:
        ended = subprocess.run(
            command,
            env={**os.environ, "TMPDIR": temporary},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert list(Path(temporary).glob("ssd-*")) == []
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    written = json.loads(report.read_text())
    assert [each["mode"] for each in written["results"]] == ["ar", "sd", "ssd"]
    assert all(each["identical"] for each in written["results"])
    assert all(each["tokens_per_s"] > 0 for each in written["results"])
    assert written["results"][1]["depth"] == 2
    assert {"ssd_over_sd", "ssd_over_ar"} <= set(written["ratios"])
    assert "<svg" in (tmp_path / "out" / "modes.svg").read_text()
    assert "ssd / sd" in ended.stdout


def test_an_unknown_mode_is_refused_with_the_known_ones() -> None:
    result = CliRunner().invoke(app, ["bench", "--mode", "fast"])
    assert result.exit_code == 2
    assert "there is no mode fast; there are ar, sd, sd_tree, ssd, ar2, sd2" in result.output


def test_widths_are_two_numbers() -> None:
    result = CliRunner().invoke(app, ["bench", "--widths", "wide"])
    assert result.exit_code == 2
    assert "--widths reads TARGET,DRAFT" in result.output
