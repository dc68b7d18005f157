"""The head of Ray goes and comes back: models serve meanwhile, and Redis has kept its books.

The pods of the overlay `dev` with the component `head-recovery`, as processes; needs
`redis-server` (Debian's package redis-server).
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ssd.client import Client, Options
from ssd.cluster.children import Child
from tests.k8s.local_pods import LocalPods
from tests.k8s.manifests import CHECKOUT, K8S, Document, build, named, started

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.soak,
    pytest.mark.skipif(
        shutil.which("redis-server") is None, reason="redis-server is not installed"
    ),
]
PATIENCE_S = 120.0
VERIFIER = "ssd-v1-verifier-0"


def overlay_with_redis(folder: Path) -> tuple[Document, ...]:
    tree = Path(shutil.copytree(K8S, folder / "k8s"))
    shutil.copytree(CHECKOUT / "observability", folder / "observability")
    file = tree / "overlays" / "dev" / "kustomization.yaml"
    file.write_text(file.read_text() + "components:\n  - ../../components/head-recovery\n")
    return build(tree / "overlays" / "dev")


def start_redis(pods: LocalPods) -> subprocess.Popen[bytes]:
    """The pod's own command, with a port and a folder of this machine."""
    pod = pods.pod("redis")
    (container,) = pod.spec["containers"]
    process = started(pod, container, pods.documents)
    shell, flag, script = process.command
    data = pods.folder / "data"
    data.mkdir()
    port = pods.port("redis", 6379)
    script = script.replace("/data", str(data)) + f" --port {port} --bind 127.0.0.1"
    options = named(pods.documents, "RayCluster", "ssd-v1")["spec"]["gcsFaultToleranceOptions"]
    assert options["redisAddress"] == "redis://ssd-redis:6379"
    pods.head_adds |= {
        "RAY_REDIS_ADDRESS": f"redis://127.0.0.1:{port}",
        "REDIS_PASSWORD": process.environment["REDIS_PASSWORD"],
        "RAY_external_storage_namespace": "ssd-v1",
    }
    environment = {"PATH": os.environ["PATH"], **process.environment}
    with (pods.folder / "redis.log").open("wb") as log:
        return subprocess.Popen([shell, flag, script], env=environment, stdout=log, stderr=log)


class Running:
    """The pods, and the nodes of Ray among them."""

    def __init__(self, pods: LocalPods) -> None:
        self.pods = pods
        self.head: Child | None = None

    def start(self) -> None:
        self.pods.start("coordinator")
        self.head, *others = self.pods.start_ray(within_s=PATIENCE_S)
        self.place([self.head, *others])

    def place(self, nodes: list[Child]) -> None:
        self.pods.finish(self.pods.start("place"), nodes, within_s=PATIENCE_S)

    def text(self) -> tuple[int, ...]:
        with Client(self.pods.address("coordinator", 50050), max_retries=0) as client:
            options = Options(seed=4, max_tokens=24, ignore_eos=True)
            pieces = client.generate("Once upon a time", options)
            return tuple(each for piece in pieces for each in piece.token_ids)

    def process_ids(self) -> dict[str, int]:
        """Of the workers that are up."""
        with Client(self.pods.address("coordinator", 50050)) as client:
            workers = client.status().workers
        return {each.worker.name: each.worker.process_id for each in workers if each.is_up}

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, self.process_ids()
            time.sleep(0.1)


@pytest.fixture
def running() -> Iterator[Running]:
    folders = [Path(tempfile.mkdtemp(prefix="ssd-h-", dir="/tmp")) for _ in range(2)]
    pods = LocalPods(overlay_with_redis(folders[0]), folders[1])
    with ExitStack() as stack:
        for folder in folders:
            stack.callback(shutil.rmtree, folder)
        redis = start_redis(pods)
        stack.callback(redis.wait)
        stack.callback(redis.terminate)
        stack.callback(pods.close)
        made = Running(pods)
        made.start()
        yield made


def test_a_head_that_comes_back_finds_its_workers_serving(running: Running) -> None:
    running.until(lambda: len(running.process_ids()) == 2)
    before, text = running.process_ids(), running.text()
    assert running.head is not None
    running.head.stop(0.0)
    assert running.text() == text, "models serve without a head"
    shutil.rmtree(running.pods.folder / "h")  # another pod has another file system
    running.head = running.pods.start_ray_node("ray-head")
    running.pods.until("ray-head", "readinessProbe", within_s=PATIENCE_S)
    running.place([running.head])
    assert running.process_ids() == before, "placing again found both where they were"
    os.kill(before[VERIFIER], signal.SIGKILL)
    running.until(lambda: running.process_ids().get(VERIFIER, 0) not in (0, before[VERIFIER]))
    assert running.text() == text, "the new head restarts what dies"
