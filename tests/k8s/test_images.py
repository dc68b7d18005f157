"""The Dockerfiles, as far as they can be judged without building them."""

import re
import subprocess
from pathlib import Path

import pytest

from ssd.cluster.process_environment import PROCESS_ENVIRONMENT
from tests.k8s.manifests import CHECKOUT, tool

DOCKERFILES = sorted((CHECKOUT / "images").glob("*.Dockerfile"))
_USER_ID = 10001
"""What the manifests say."""


@pytest.fixture(params=DOCKERFILES, ids=lambda path: path.name)
def dockerfile(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def instructions(path: Path, word: str) -> list[str]:
    """The rest of each line that begins with `word`, continuation lines joined."""
    text = path.read_text().replace("\\\n", " ")
    return [line.removeprefix(word).strip() for line in text.splitlines() if line.startswith(word)]


def test_there_is_an_image_for_coordinator_and_worker() -> None:
    assert [path.stem for path in DOCKERFILES] == ["coordinator", "worker"]


def test_the_linter_finds_nothing(dockerfile: Path) -> None:
    hadolint = tool("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([hadolint, str(dockerfile)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_base_has_a_full_version(dockerfile: Path) -> None:
    (version,) = instructions(dockerfile, "ARG PYTHON_VERSION=")
    assert re.fullmatch(r"3\.11\.\d+", version), "the series that constraints.txt was tested with"
    assert set(instructions(dockerfile, "FROM ")) == {
        "python:${PYTHON_VERSION}-slim-bookworm AS build",
        "python:${PYTHON_VERSION}-slim-bookworm",
    }


def test_it_runs_as_the_user_of_the_manifests(dockerfile: Path) -> None:
    assert instructions(dockerfile, "USER ") == [f"{_USER_ID}:{_USER_ID}"]


def test_processes_start_with_the_environment_that_the_launcher_gives(dockerfile: Path) -> None:
    (words,) = instructions(dockerfile, "ENV ")
    given = dict(word.split("=", 1) for word in words.split())
    assert PROCESS_ENVIRONMENT.items() <= given.items()


def test_every_install_obeys_the_constraints(dockerfile: Path) -> None:
    installs = [run for run in instructions(dockerfile, "RUN ") if "pip install" in run]
    assert installs
    for run in installs:
        assert "constraints.txt" in run, run


def test_the_coordinator_has_no_extras() -> None:
    (run,) = (
        run
        for run in instructions(CHECKOUT / "images/coordinator.Dockerfile", "RUN ")
        if "pip install" in run
    )
    assert run.endswith("pip install -c constraints.txt .")


def test_what_is_copied_exists_and_is_not_ignored(dockerfile: Path) -> None:
    kept = {
        line.removeprefix("!")
        for line in (CHECKOUT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    for words in instructions(dockerfile, "COPY "):
        if words.startswith("--from"):
            continue
        for source in words.split()[:-1]:
            assert (CHECKOUT / source).exists(), source
            assert source.partition("/")[0] in kept, source
