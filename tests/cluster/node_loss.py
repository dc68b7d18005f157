"""Serve on a Ray cluster of several nodes, take the verifier's node away in the middle of texts,
add another, and print what the clients got.

A process of its own: `ray.cluster_utils.Cluster` starts Ray inside the one that uses it, and Ray
reads its token once. Argument: a folder with a tiny pair.
"""

import json
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

from ssd.client import Client, Options
from ssd.cluster import PlacedWorker, WorkerSpec, place, remove
from ssd.config import SsdConfig
from ssd.core.mode import Mode

NUM_CLIENTS = 8
MAX_TOKENS = 400
STAYS, GOES = {"place": "stays"}, {"place": "goes"}


class Reader(threading.Thread):
    """A client; notes its tokens and when they came."""

    def __init__(self, address: str, number: int, mode: Mode) -> None:
        super().__init__(daemon=True)
        self.token_ids: list[int] = []
        self.longest_gap_s = 0.0
        self._address, self._number, self._mode = address, number, mode

    def run(self) -> None:
        options = Options(
            mode=self._mode,
            temperature=float(self._number % 2),
            seed=self._number,
            max_tokens=MAX_TOKENS,
            ignore_eos=True,
            resume_s=120.0,
        )
        last = None
        with Client(self._address) as client:
            for piece in client.generate(f"Text {self._number}", options):
                now = time.monotonic()
                self.longest_gap_s = max(self.longest_gap_s, now - (last or now))
                last = now
                self.token_ids += piece.token_ids


def main() -> None:
    logging.disable(logging.WARNING)
    pair = Path(sys.argv[1])
    command = [sys.executable, "-m", "coordinator", "--set=coordinator.port=0"]
    command += ["--set=timeouts.reopen_s=120", "--set=metrics.enabled=false"]
    coordinator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    cluster = Cluster()
    try:
        assert coordinator.stdout is not None
        address = next(line for line in coordinator.stdout if " serves at " in line).split()[-1]
        add_node(cluster, STAYS, num_cpus=2)  # the head, without which there is no Ray
        lost = add_node(cluster, GOES, num_cpus=1)
        placed = place(specs(pair, address), address=cluster.address, deadline_s=60)
        assert node_of(placed, "verifier-0") == lost.node_id
        until_serving(address)
        plain = read(address, Mode.AR)
        readers = [Reader(address, number, Mode.SSD) for number in range(NUM_CLIENTS)]
        for reader in readers:
            reader.start()
        while sum(len(each.token_ids) for each in readers) < 200:
            time.sleep(0.01)
        lost_at = time.monotonic()
        cluster.remove_node(lost, allow_graceful=False)
        add_node(cluster, GOES, num_cpus=1)
        for reader in readers:
            reader.join(60)
        until_serving(address, but=pid_of(placed, "verifier-0"))
        answer = {
            "equal": [each.token_ids for each in readers] == plain,
            "longest_gap_s": round(max(each.longest_gap_s for each in readers), 2),
            "whole_again_s": round(time.monotonic() - lost_at, 1),
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        remove(address=cluster.address)
    finally:
        coordinator.kill()
        if ray.is_initialized():
            ray.shutdown()
        cluster.shutdown()


def add_node(cluster: Cluster, labels: dict[str, str], *, num_cpus: int) -> Any:
    return cluster.add_node(num_cpus=num_cpus, labels=labels, object_store_memory=100_000_000)


def specs(pair: Path, address: str) -> list[WorkerSpec]:
    """A verifier on the node that goes; another and the drafter on the one that stays."""
    settings = SsdConfig.model_validate(
        {
            "models": {
                "target": str(pair / "target"),
                "draft": str(pair / "draft"),
                "target_dtype": "fp64",
                "draft_dtype": "fp64",
                "device": "cpu",
            },
            "cluster": {"coordinators": [address]},
            "metrics": {"enabled": False},
        }
    ).model_dump(mode="json")
    roles = {"verifier-0": "verifier", "verifier-1": "verifier", "drafter-0": "drafter"}
    return [
        WorkerSpec(
            name=name,
            actor_class=f"{role}_service.actor:{role.capitalize()}Actor",
            config={"name": name, "settings": settings, "core": None},
            device="cpu",
            labels=GOES if name == "verifier-0" else STAYS,
        )
        for name, role in roles.items()
    ]


def node_of(placed: list[PlacedWorker], name: str) -> str:
    return next(each.node_id for each in placed if each.name == name)


def pid_of(placed: list[PlacedWorker], name: str) -> int:
    return next(each.pid for each in placed if each.name == name)


def until_serving(address: str, *, but: int | None = None) -> None:
    """Until three workers are up, none of them the process `but`."""
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        with Client(address) as client:
            pids = {each.worker.process_id for each in client.status().workers if each.is_up}
        if len(pids - {but}) == 3:
            return
        time.sleep(0.1)
    raise TimeoutError("the workers are not up")


def read(address: str, mode: Mode) -> list[list[int]]:
    readers = [Reader(address, number, mode) for number in range(NUM_CLIENTS)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(100)
    return [each.token_ids for each in readers]


if __name__ == "__main__":
    main()
