"""A new release takes over from the old one under load, by the steps of docs/operations.md.

Two RayClusters on this machine, of one overlay, and one coordinator: the second is started beside
the first, the first's verifier is drained, the first is deleted. No client notices but by a pause.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ssd.client import Client, Options
from ssd.cluster.children import Child
from ssd.core.mode import Mode
from ssd.v1 import registry_pb2
from tests.k8s.local_pods import LocalPods
from tests.k8s.manifests import CHECKOUT, K8S, build

pytestmark = [pytest.mark.timeout(300), pytest.mark.soak]
PATIENCE_S = 150.0
OLD, NEW = "v1", "v2"
NUM_CLIENTS = 3
TEXT_LEN = 96
AFTERWARDS_S = 2.0
PROMPT = "Once upon a time"
MAX_GAP_S = 10.0
"""Of a machine whose two cores also start a Ray cluster; the gap itself is printed."""


def overlay_with_both(folder: Path) -> Path:
    """Step 1 of the manual: the release copied, with another suffix, beside the first."""
    tree = Path(shutil.copytree(K8S, folder / "k8s"))
    shutil.copytree(CHECKOUT / "observability", folder / "observability")
    overlay = tree / "overlays" / "dev"
    shutil.copytree(overlay / "release", overlay / "release-v2")
    replace(overlay / "release-v2" / "kustomization.yaml", "nameSuffix: -v1", "nameSuffix: -v2")
    replace(overlay / "kustomization.yaml", "  - release\n", "  - release\n  - release-v2\n")
    return overlay


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


@dataclass(slots=True)
class Load:
    """Clients that ask one request after the other, until told to stop."""

    address: str
    stopping: threading.Event = field(default_factory=threading.Event)
    texts: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)  # by seed
    gaps: list[tuple[float, float]] = field(default_factory=list)  # length, and when it ended

    def run(self, first_seed: int) -> None:
        """Raises what a client would see of a failure; nothing is asked twice."""
        seed = first_seed
        while not self.stopping.is_set():
            self.texts.append((seed, self.ask(seed, mode=Mode.SSD)))
            seed += NUM_CLIENTS

    def ask(self, seed: int, *, mode: Mode) -> tuple[int, ...]:
        options = Options(mode=mode, seed=seed, max_tokens=TEXT_LEN, ignore_eos=True)
        token_ids: list[int] = []
        with Client(self.address, max_retries=0) as client:
            before = time.monotonic()
            for piece in client.generate(PROMPT, options):
                now = time.monotonic()
                self.gaps.append((now - before, now))
                before = now
                token_ids += piece.token_ids
        return tuple(token_ids)

    def longest_gap_s(self, since: float, until: float) -> float:
        return max(gap for gap, ended in self.gaps if since <= ended <= until)


@contextmanager
def under_load(address: str) -> Iterator[Load]:
    """Streams for as long as the block runs; a request that failed fails the test."""
    load = Load(address)
    with ThreadPoolExecutor(NUM_CLIENTS) as pool:
        clients: list[Future[None]] = [pool.submit(load.run, seed) for seed in range(NUM_CLIENTS)]
        try:
            yield load
        finally:
            load.stopping.set()
        for each in clients:
            each.result()


@dataclass(slots=True)
class Releases:
    """Both releases of the overlay; they share the coordinator and its address."""

    old: LocalPods
    new: LocalPods
    old_nodes: list[Child] = field(default_factory=list)

    @property
    def address(self) -> str:
        return self.old.address("coordinator", 50050)

    def start_old(self) -> None:
        self.old.start("coordinator")
        self.old_nodes = self.start(self.old)

    def start(self, release: LocalPods) -> list[Child]:
        placing = release.start("place")
        nodes = release.start_ray(within_s=PATIENCE_S)
        release.finish(placing, nodes, within_s=PATIENCE_S)
        return nodes

    def status(self) -> registry_pb2.GetStatusResponse:
        with Client(self.address) as client:
            return client.status()

    def until(self, holds: Callable[[registry_pb2.GetStatusResponse], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds(self.status()):
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.05)

    def is_up(self, *names: str) -> None:
        self.until(
            lambda said: {each.worker.name for each in said.workers if each.is_up} >= set(names)
        )

    def drain(self, worker: str) -> str:
        """The manual's own command."""
        program = (sys.executable, "-c", "from ssd.cli.main import app; app()")
        command = [*program, "drain", worker, "--address", self.address]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def close(self) -> None:
        self.new.close()
        self.old.close()


@pytest.fixture(scope="module")
def releases() -> Iterator[Releases]:
    folders = [Path(tempfile.mkdtemp(prefix="ssd-r-", dir="/tmp")) for _ in range(3)]
    documents = build(overlay_with_both(folders[0]))
    old = LocalPods(documents, folders[1], release=OLD)
    new = LocalPods(documents, folders[2], release=NEW, free=old.free)
    new.ports["coordinator", 50050] = old.port("coordinator", 50050)
    made = Releases(old, new)
    try:
        yield made
    finally:
        made.close()
        for folder in folders:
            shutil.rmtree(folder)


def test_a_new_release_takes_over_under_load(
    releases: Releases, capsys: pytest.CaptureFixture[str]
) -> None:
    releases.start_old()
    releases.is_up("ssd-v1-verifier-0", "ssd-v1-drafter-0")
    with under_load(releases.address) as load:
        begun = time.monotonic()
        releases.start(releases.new)
        releases.is_up("ssd-v1-verifier-0", "ssd-v2-verifier-0")
        beside = time.monotonic()
        said = releases.drain("ssd-v1-verifier-0")
        assert said.startswith("ssd-v1-verifier-0 drains")
        releases.until(lambda each: not on_verifier(each.sessions, "ssd-v1-verifier-0"))
        drained = time.monotonic()
        for node in reversed(releases.old_nodes):
            node.stop(5.0)
        time.sleep(AFTERWARDS_S)
        ended = time.monotonic()
    moves = {each.reason: each.count for each in releases.status().moves}
    gaps = {
        "beside": load.longest_gap_s(begun, beside),
        "drained": load.longest_gap_s(beside, drained + 1.0),
        "deleted": load.longest_gap_s(drained, ended),
    }
    figures = {
        "requests": len(load.texts),
        "moves": moves,
        **{f"longest gap while {name}, s": round(gap, 3) for name, gap in gaps.items()},
    }
    with capsys.disabled():
        sys.stdout.write(f"\n{json.dumps(figures)}\n")
    assert moves.get("drain", 0) > 0, "no session moved"
    assert max(gaps.values()) < MAX_GAP_S
    for seed, text in load.texts[:: max(len(load.texts) // 6, 1)]:
        assert text == load.ask(seed, mode=Mode.AR), "another text than plain decoding gives"
    assert all(len(text) == TEXT_LEN for _, text in load.texts)


def on_verifier(sessions: Sequence[registry_pb2.SessionStatus], name: str) -> int:
    return sum(each.verifier == name for each in sessions)
