"""Placement on a real Ray with two GPUs that exist in its books only."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from ssd.cluster import LocalRay, PlacedWorker, WorkerSpec, place, remove
from ssd.cluster.driver import connected
from ssd.cluster.processes import wait_until
from ssd.core.errors import ConfigError, Unavailable


def toy(name: str, *, kind: str = "ToyActor", device: str = "auto") -> WorkerSpec:
    return WorkerSpec(name, f"tests.cluster.toy_actor:{kind}", device=device)  # type: ignore[arg-type]


PAIR = [toy("verifier-0"), toy("drafter-0")]
WITH_TABLE = [*PAIR, toy("table-0", device="cpu")]


class Cluster:
    """One running Ray, and the calls with its address and token filled in."""

    def __init__(self, local_ray: LocalRay) -> None:
        self.local_ray = local_ray
        self.address = local_ray.address
        self.token_path = local_ray.token_path

    def place(self, workers: list[WorkerSpec], *, deadline_s: float = 30.0) -> list[PlacedWorker]:
        return place(
            workers, address=self.address, token_path=self.token_path, deadline_s=deadline_s
        )

    def remove(self) -> None:
        remove(address=self.address, token_path=self.token_path)

    def is_empty(self) -> bool:
        """Whether no actor is left, and all devices are free within a few seconds."""
        with connected(self.address, namespace="ssd", token_path=self.token_path):
            actors = ray.util.list_named_actors(all_namespaces=True)
            return actors == [] and wait_until(lambda: free_devices() == (2, 2), 5)


def free_devices() -> tuple[float, float]:
    free = ray.available_resources()
    return free.get("CPU", 0), free.get("GPU", 0)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    local_ray = LocalRay.start(tmp_path_factory.mktemp("run"), num_cpus=2, num_gpus=2)
    yield Cluster(local_ray)
    local_ray.stop()


@pytest.fixture(scope="class")
def placed(cluster: Cluster) -> Iterator[list[PlacedWorker]]:
    yield cluster.place(PAIR)
    cluster.remove()


class TestPair:
    """Two workers, placed once for all of these tests."""

    def test_workers_stand_on_different_devices(self, placed: list[PlacedWorker]) -> None:
        assert {worker.device_id for worker in placed} == {"cuda:0", "cuda:1"}
        assert len({worker.node_id for worker in placed}) == 1

    def test_placing_twice_changes_nothing(
        self, cluster: Cluster, placed: list[PlacedWorker]
    ) -> None:
        assert cluster.place(PAIR) == placed

    def test_placement_leaves_the_handler_of_sigterm_alone(
        self, cluster: Cluster, placed: list[PlacedWorker]
    ) -> None:
        before = signal.getsignal(signal.SIGTERM)
        cluster.place(PAIR)
        assert signal.getsignal(signal.SIGTERM) is before

    def test_other_workers_than_those_placed_are_refused(
        self, cluster: Cluster, placed: list[PlacedWorker]
    ) -> None:
        with pytest.raises(ConfigError, match="ssd place --remove"):
            cluster.place(WITH_TABLE)
        assert cluster.place(PAIR) == placed

    def test_a_killed_worker_comes_back_under_its_name(
        self, cluster: Cluster, placed: list[PlacedWorker]
    ) -> None:
        verifier, drafter = placed
        os.kill(verifier.pid, signal.SIGKILL)
        again, drafter_again = cluster.place(PAIR)
        assert again.pid != verifier.pid
        assert (again.name, again.device_id) == (verifier.name, verifier.device_id)
        assert drafter_again == drafter


def test_a_worker_on_the_cpu_sees_no_gpu(cluster: Cluster) -> None:
    *_, table = cluster.place(WITH_TABLE)
    with connected(cluster.address, namespace="ssd", token_path=cluster.token_path):
        visible: Any = ray.get(ray.get_actor("table-0").visible_gpus.remote())
    cluster.remove()
    assert (table.device_id, visible) == ("cpu:0", "")


def test_remove_frees_everything_and_may_be_repeated(cluster: Cluster) -> None:
    workers = cluster.place(PAIR)
    cluster.remove()
    cluster.remove()
    assert cluster.is_empty()
    assert wait_until(lambda: not any(Path(f"/proc/{w.pid}").exists() for w in workers), 5)


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("SharingActor", ConfigError, "first and second share device cuda:0 of node"),
        ("RefusingActor", ConfigError, "cannot serve: ValueError: the model needs 80 GB"),
        ("DeafActor", Unavailable, "do not serve by the deadline: first, second"),
        ("NoSuchActor", ConfigError, "there is no actor tests.cluster.toy_actor:NoSuchActor"),
    ],
)
def test_a_placement_that_fails_says_why_and_leaves_nothing(
    cluster: Cluster, kind: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        cluster.place([toy("first", kind=kind), toy("second", kind=kind)], deadline_s=3)
    assert cluster.is_empty()


def test_more_workers_than_gpus_are_refused_before_anything_is_created(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match=r"3 workers .* and the Ray cluster has 2"):
        cluster.place([*PAIR, toy("drafter-1")])
    assert cluster.is_empty()


def test_a_token_that_is_not_there_is_named(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no_such_token"):
        place(PAIR, address=cluster.address, token_path=tmp_path / "no_such_token")


def test_an_address_where_nothing_listens_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="no Ray cluster answers"):
        place(PAIR, address="127.0.0.1:1")


def test_the_package_imports_where_torch_and_grpc_are_absent() -> None:
    script = (
        "import sys; sys.modules.update(torch=None, grpc=None); "
        "import ssd.cluster, ssd.cluster.placement, ssd.cluster.launcher"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
