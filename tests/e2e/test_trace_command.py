"""`ssd trace` as a user runs it: a service of its own, a tiny pair in float64."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ssd.cli.main import app
from tests.models.tiny_pair import write_tiny_pair

pytestmark = pytest.mark.timeout(300)
SSD = Path(sys.executable).with_name("ssd")


@dataclass(frozen=True, slots=True)
class Ended:
    """A run of the command that came to its end."""

    out: Path
    exit_code: int
    output: str


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    folder = tmp_path_factory.mktemp("trace")
    pair = write_tiny_pair(folder)
    temporary = Path(tempfile.mkdtemp(prefix="ssd-t-", dir="/tmp"))  # socket paths must be short
    settings = (f"models.target={pair.target}", f"models.draft={pair.draft}", "models.device=cpu")
    command = [str(SSD), "trace", "Once upon a time", "--max-tokens", "64", "--out", str(folder)]
    for each in (*settings, "models.target_dtype=fp64", "models.draft_dtype=fp64"):
        command += ["--set", each]
    ours = {"TMPDIR": str(temporary), "XDG_CONFIG_HOME": str(temporary / "config")}
    run = subprocess.run(
        command,
        env={**os.environ, **ours, "OTEL_TRACES_EXPORTER": "none"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    yield Ended(folder, run.returncode, run.stdout + run.stderr)
    shutil.rmtree(temporary, ignore_errors=True)


def test_it_leaves_a_picture_a_page_and_the_trace(ended: Ended) -> None:
    assert ended.exit_code == 0, ended.output
    assert (ended.out / "timeline.png").stat().st_size > 10_000
    assert "const boxes" in (ended.out / "timeline.html").read_text()
    for name in ("timeline.png", "timeline.html", "trace.json"):
        assert str(ended.out / name) in ended.output


def test_the_trace_holds_what_three_processes_exported(ended: Ended) -> None:
    document = json.loads((ended.out / "trace.json").read_text())
    services, trace_ids, names = set(), set(), []
    for resource_spans in document["resourceSpans"]:
        resource = resource_spans["resource"]["attributes"]
        names_of = [each["value"] for each in resource if each["key"] == "service.name"]
        services.add(names_of[0]["stringValue"])
        for scope_spans in resource_spans["scopeSpans"]:
            trace_ids |= {span["traceId"] for span in scope_spans["spans"]}
            names += [span["name"] for span in scope_spans["spans"]]
    assert services == {"ssd-coordinator", "ssd-verifier", "ssd-drafter"}
    assert len(trace_ids) == 1
    assert trace_ids.pop() in ended.output
    assert names.count("ssd.decode") == 1
    assert names.count("ssd.verify") > 5
    assert names.count("ssd.speculate") > 5


def test_a_service_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    for command in (["trace", "Once", "--out", str(tmp_path)], ["top"]):
        outcome = CliRunner().invoke(app, [*command, "--address", "127.0.0.1:1"])
        assert outcome.exit_code == 1
        assert outcome.stderr.startswith("error: ")
        assert len(outcome.stderr.splitlines()) == 1
