"""Whatever ends the launcher, and whenever, nothing of it is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssd.cluster import LocalRay
from ssd.cluster.processes import wait_until
from tests.cluster.conftest import users

SCRIPT = Path(__file__).with_name("launching.py")
REPOSITORY = SCRIPT.parents[2]


@contextmanager
def launched(run_dir: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(run_dir)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_words(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def running(pids: list[str]) -> list[str]:
    """Those that still run; one that has ended may wait for init, its new parent, to notice."""
    return [pid for pid in pids if state(pid) not in ("", "Z", "X")]


def state(pid: str) -> str:
    """The kernel's letter for what a process does (proc(5)); none for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.parametrize("delay_s", [0.0, 1.0, 2.5])
def test_ctrl_c_during_start_up_leaves_nothing(
    tmp_path: Path, ray_files: Path, delay_s: float
) -> None:
    with launched(tmp_path / "run") as process:
        assert next_words(process) == ["entered"]
        time.sleep(delay_s)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    # The kernel ends what was born in the instant of the interrupt, a moment after its parent.
    assert wait_until(lambda: users(ray_files) == [], 5.0)
    assert list(ray_files.glob("ssd-ray-*")) == []
    assert list(tmp_path.iterdir()) == []


def test_sigterm_ends_child_workers_and_ray(tmp_path: Path, ray_files: Path) -> None:
    with launched(tmp_path / "run") as process:
        next_words(process)
        first, *pids = next_words(process)
        assert (first, running(pids)) == ("placed", pids)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130
    assert running(pids) == []
    assert list(ray_files.glob("ssd-ray-*")) == []
    assert list(tmp_path.iterdir()) == []


def test_a_killed_launcher_takes_everything_with_it(tmp_path: Path, ray_files: Path) -> None:
    with launched(tmp_path / "run") as process:
        next_words(process)
        _, *pids = next_words(process)
        process.kill()
        assert wait_until(lambda: running(pids) == [], 30), running(pids)
    left = LocalRay.from_state(tmp_path / "run")
    assert left is not None
    assert not left.is_running
    left.stop()
    assert list(ray_files.glob("ssd-ray-*")) == []
    assert LocalRay.from_state(tmp_path / "run") is None
