"""`ssd demo` as a user runs it: three real processes, a tiny pair in float64."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ssd.cli import demo
from ssd.cli.main import app
from ssd.cluster.processes import wait_until
from ssd.report.side_by_side import MODES
from tests.models.tiny_pair import TinyPair, write_tiny_pair
from tests.report.synthetic_runs import all_runs, report_of

pytestmark = pytest.mark.timeout(300)
SSD = Path(sys.executable).with_name("ssd")
MAX_TOKENS = 32


@dataclass(frozen=True, slots=True)
class Household:
    """Where a demo keeps its files; every process it starts inherits the mark."""

    out: Path
    temporary: Path
    mark: str

    @property
    def environment(self) -> dict[str, str]:
        ours = {"TMPDIR": str(self.temporary), "DEMO_TEST": self.mark}
        return {**os.environ, **ours, "XDG_CONFIG_HOME": str(self.temporary / "config")}

    def processes(self) -> list[int]:
        mark = f"DEMO_TEST={self.mark}".encode()
        environments = Path("/proc").glob("[0-9]*/environ")
        return [int(each.parent.name) for each in environments if mark in _read(each)]


@dataclass(frozen=True, slots=True)
class Ended:
    """A demo that ran to its end."""

    household: Household
    exit_code: int
    output: str
    errors: str


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # the process has ended, or is another user's
        return b""


@pytest.fixture(scope="module")
def tiny_pair(tmp_path_factory: pytest.TempPathFactory) -> TinyPair:
    # Without idle layers a verification is over before a message about the last has come.
    return write_tiny_pair(tmp_path_factory.mktemp("pair"), num_idle_layers=16)


@pytest.fixture(scope="module")
def ended(tiny_pair: TinyPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    with household(tmp_path_factory.mktemp("demo")) as ours:
        process = started(ours, tiny_pair, ["--json"])
        output, errors = process.communicate(timeout=240)
        yield Ended(ours, process.returncode, output, errors)


@contextmanager
def household(out: Path) -> Iterator[Household]:
    temporary = Path(tempfile.mkdtemp(prefix="ssd-d-", dir="/tmp"))  # socket paths must be short
    yield Household(out, temporary, uuid.uuid4().hex)
    shutil.rmtree(temporary, ignore_errors=True)


def started(ours: Household, pair: TinyPair, options: Sequence[str]) -> subprocess.Popen[str]:
    command = [
        *(str(SSD), "demo", "--target", str(pair.target), "--draft", str(pair.draft)),
        *("--dtype", "fp64", "--set", "models.draft_dtype=fp64", "--out", str(ours.out)),
        *("--max-tokens", str(MAX_TOKENS), *options),
    ]
    return subprocess.Popen(
        command,
        env=ours.environment,
        cwd=ours.out,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_every_text_is_that_of_plain_decoding(ended: Ended) -> None:
    assert ended.exit_code == 0, ended.errors
    runs = json.loads((ended.household.out / "report.json").read_text())["runs"]
    ways = {(run["mode"], run["temperature"]) for run in runs}
    assert ways == {(mode, temperature) for mode in MODES for temperature in (0.0, 1.0)}
    assert len(runs) == 18
    assert all(run["identical_to_ar"] for run in runs)
    assert all(1 <= run["tokens"] <= MAX_TOKENS for run in runs)


def test_drafts_were_made_where_the_mode_says_so(ended: Ended) -> None:
    runs = json.loads((ended.household.out / "report.json").read_text())["runs"]
    drafted = {run["mode"] for run in runs if run["tokens_per_round"] > 1.0}
    assert drafted == {"ssd", "sd"}


def test_the_report_is_printed_on_request_and_everything_else_beside_it(ended: Ended) -> None:
    printed = json.loads(ended.output.splitlines()[-1])
    assert printed == json.loads((ended.household.out / "report.json").read_text())
    assert "Once upon a time" in ended.errors
    assert str(ended.household.out / "timeline.png") in ended.errors


def test_the_picture_is_there(ended: Ended) -> None:
    assert (ended.household.out / "timeline.png").stat().st_size > 10_000


def test_nothing_is_left_running(ended: Ended) -> None:
    assert wait_until(lambda: ended.household.processes() == [], 5), ended.household.processes()
    assert list(ended.household.temporary.glob("ssd-ray-*")) == []


def test_ctrl_c_ends_everything_with_status_130(tiny_pair: TinyPair, tmp_path: Path) -> None:
    with household(tmp_path) as ours:
        process = started(ours, tiny_pair, [])
        assert process.stdout is not None
        assert any("2 of 6" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        assert wait_until(lambda: ours.processes() == [], 5), ours.processes()
        assert list(ours.temporary.glob("ssd-ray-*")) == []


def test_a_missing_model_is_one_sentence(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(
        app, ["demo", "--target", "./nothing", "--draft", "./nothing", "--out", str(tmp_path)]
    )
    assert outcome.exit_code == 2
    assert outcome.stderr == "error: there is no target model at nothing\n"


def test_a_text_that_differs_ends_with_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = all_runs()
    differing = report_of([replace(first, token_ids=(1, 2, 3)), *others])
    monkeypatch.setattr(demo, "_run", lambda *_: differing)
    outcome = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert outcome.exit_code == 1
    assert "token 0 is id 1, plain decoding has id 10" in " ".join(outcome.output.split())
    assert not json.loads((tmp_path / "report.json").read_text())["identical_to_ar"]
