"""What processes start with, as `/proc` shows it."""

import os
from pathlib import Path

import pytest

from ssd.cluster import Launcher, WorkerSpec
from ssd.cluster.process_environment import PROCESS_ENVIRONMENT, process_environment

SLEEP = ["sleep", "60"]


def environment_of(pid: int) -> dict[str, str]:
    pairs = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if pair)


def test_workers_and_children_start_with_it(tmp_path: Path) -> None:
    with Launcher(tmp_path) as launcher:
        launcher.start_ray(num_cpus=1, num_gpus=0)
        (worker,) = launcher.place([WorkerSpec("toy", "tests.cluster.toy_actor:ToyActor")])
        child = launcher.start_child("sleeper", SLEEP)
        for pid in (worker.pid, child.pid):
            assert PROCESS_ENVIRONMENT.items() <= environment_of(pid).items()


def test_a_value_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_EXPERIMENTS", "tcp_frame_size_tuning")
    for name in PROCESS_ENVIRONMENT.keys() - {"GRPC_EXPERIMENTS"}:
        monkeypatch.delenv(name, raising=False)
    expected = {**os.environ, **PROCESS_ENVIRONMENT, "GRPC_EXPERIMENTS": "tcp_frame_size_tuning"}
    assert process_environment() == expected
