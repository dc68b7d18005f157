"""The overlay `dev`, started as processes of this machine, serves a request."""

import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ssd.client import Client, Options
from ssd.core.mode import Mode
from tests.k8s.local_pods import LocalPods
from tests.k8s.manifests import K8S, build

pytestmark = pytest.mark.timeout(300)
PATIENCE_S = 120.0
RAY_NODES = ("ray-head", "verifier", "drafter")


@dataclass(frozen=True, slots=True)
class Dev:
    """The running pods, and the process of the coordinator among them."""

    pods: LocalPods
    coordinator: subprocess.Popen[bytes]


@pytest.fixture(scope="module")
def running() -> Iterator[Dev]:
    """All pods of the overlay, in an order that suits none of them."""
    folder = Path(tempfile.mkdtemp(prefix="ssd-p-", dir="/tmp"))  # Ray's socket paths are short
    made = LocalPods(build(K8S / "overlays" / "dev"), folder)
    try:
        placing, coordinator = made.start("place"), made.start("coordinator")
        nodes = made.start_ray(within_s=PATIENCE_S)
        made.until("coordinator", "startupProbe", within_s=PATIENCE_S)
        assert not made.probe("coordinator", "readinessProbe"), "no verifier has registered"
        made.finish(placing, nodes, within_s=PATIENCE_S)
        yield Dev(made, coordinator)
    finally:
        made.close()
        shutil.rmtree(folder)


@pytest.fixture
def dev(running: Dev) -> LocalPods:
    return running.pods


def test_every_probe_passes(dev: LocalPods) -> None:
    for component in ("coordinator", *RAY_NODES):
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            dev.until(component, probe, within_s=20)


def test_it_serves_what_plain_decoding_gives(dev: LocalPods) -> None:
    dev.until("coordinator", "readinessProbe", within_s=20)
    texts, num_accepted = {}, {}
    with Client(dev.address("coordinator", 50050)) as client:
        for mode in (Mode.SSD, Mode.AR):
            options = Options(mode=mode, seed=5, max_tokens=48, ignore_eos=True, timeout_s=60)
            generation = client.generate("Once upon a time", options)
            texts[mode] = [each for piece in generation for each in piece.token_ids]
            num_accepted[mode] = generation.completion.figures.num_accepted
    assert len(texts[Mode.SSD]) == 48
    assert texts[Mode.SSD] == texts[Mode.AR]
    assert num_accepted[Mode.SSD] > 0, "the drafter took no part"


def test_each_worker_stands_on_the_node_of_its_role(dev: LocalPods) -> None:
    with Client(dev.address("coordinator", 50050)) as client:
        workers = {each.worker.name: each.worker for each in client.status().workers}
    assert set(workers) == {"ssd-v1-verifier-0", "ssd-v1-drafter-0"}
    assert len({worker.node for worker in workers.values()}) == 2
    ports = {name: int(each.address.rpartition(":")[2]) for name, each in workers.items()}
    assert ports["ssd-v1-verifier-0"] == dev.port("verifier", 50051)
    assert ports["ssd-v1-drafter-0"] == dev.port("drafter", 50052)


@pytest.mark.parametrize(
    ("component", "port"), [("coordinator", 9464), ("verifier", 9465), ("drafter", 9466)]
)
def test_figures_are_where_prometheus_looks(dev: LocalPods, component: str, port: int) -> None:
    url = f"http://{dev.address(component, port)}/metrics"
    with urllib.request.urlopen(url, timeout=5) as answer:
        assert b"ssd_" in answer.read()


NUM_STREAMS = 20
STREAM_LEN = 160


@dataclass(frozen=True, slots=True)
class Streamed:
    """A stream read to its end, on the monotonic clock."""

    token_ids: tuple[int, ...]
    ended_at: float


def stream(address: str, seed: int, begun: threading.Semaphore) -> Streamed:
    """Read one generation; `begun` counts those of which a token has come."""
    with Client(address) as client:
        options = Options(seed=seed, max_tokens=STREAM_LEN, ignore_eos=True, timeout_s=100)
        generation, token_ids = client.generate("Once upon a time", options), list[int]()
        for piece in generation:
            if not token_ids:
                begun.release()
            token_ids += piece.token_ids
        assert generation.completion.num_completion_tokens == STREAM_LEN
    return Streamed(tuple(token_ids), time.monotonic())


def seconds_until_not_ready(address: str) -> float:
    """When a client that watches the service's health is told to go elsewhere."""
    request = health_pb2.HealthCheckRequest(service="ssd.v1.GenerationService")
    with grpc.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # its stubs know no methods
        for answer in stub.Watch(request):
            if answer.status == health_pb2.HealthCheckResponse.NOT_SERVING:
                return time.monotonic()
    raise AssertionError("the watch ended without a word")


def test_sigterm_ends_twenty_streams_whole_and_readiness_goes_first(running: Dev) -> None:
    """The last of this file: it stops the coordinator."""
    dev, address = running.pods, running.pods.address("coordinator", 50050)
    dev.until("coordinator", "readinessProbe", within_s=20)
    begun = threading.Semaphore(0)
    with ThreadPoolExecutor(NUM_STREAMS + 1) as pool:
        turning = pool.submit(seconds_until_not_ready, address)
        reading = [pool.submit(stream, address, seed, begun) for seed in range(NUM_STREAMS)]
        for _ in range(NUM_STREAMS):
            assert begun.acquire(timeout=60)
        running.coordinator.send_signal(signal.SIGTERM)
        told_at = time.monotonic()
        streams = [each.result() for each in reading]
        not_ready_at = turning.result()
        assert running.coordinator.wait(30) == 0
        ended_at = time.monotonic()
    assert not dev.probe("coordinator", "readinessProbe")
    assert all(len(each.token_ids) == STREAM_LEN for each in streams)
    assert len({each.token_ids for each in streams}) > 1, "each has its own seed"
    first, last = min(each.ended_at for each in streams), max(each.ended_at for each in streams)
    assert told_at < not_ready_at < first, "readiness turned before any stream ended"
    grace_s = dev.pod("coordinator").spec["terminationGracePeriodSeconds"]
    assert ended_at - told_at < grace_s
    assert ended_at - last < 5, "nothing holds it once the last stream has ended"
