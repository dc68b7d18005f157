"""Processes are killed while clients read: every text is whole, and the one it would have been."""

import logging
import os
import random
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ssd.client import Client, Options
from ssd.core.mode import Mode
from tests.e2e.processes import Service, until
from tests.models.tiny_pair import write_tiny_pair

pytestmark = pytest.mark.timeout(600)
log = logging.getLogger(__name__)  # shown by --log-cli-level=INFO
FEW_AND_MANY = [8, pytest.param(100, marks=pytest.mark.soak)]
MAX_TOKENS = 300


@dataclass
class Reader:
    """A client in a thread of its own; notes when tokens came."""

    address: str
    number: int
    token_ids: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    @property
    def longest_gap_s(self) -> float:
        return max((b - a for a, b in zip(self.times, self.times[1:], strict=False)), default=0.0)

    def _run(self) -> None:
        try:
            with Client(self.address) as client:
                for piece in client.generate(f"Text {self.number}", options(self.number)):
                    self.token_ids += piece.token_ids
                    self.times.append(time.monotonic())
        except Exception as error:
            self.error = error


def options(number: int, mode: Mode = Mode.SSD) -> Options:
    return Options(
        mode=mode,
        temperature=float(number % 2),
        seed=number,
        max_tokens=MAX_TOKENS,
        ignore_eos=True,
        resume_s=90.0,
    )


@pytest.fixture(scope="module")
def plain() -> dict[int, list[int]]:
    """The texts of plain decoding by client, as far as some test asked for them."""
    return {}


def expected(service: Service, count: int, plain: dict[int, list[int]]) -> list[list[int]]:
    """The texts of plain decoding; every service of this module has the same models."""

    def read_plainly(number: int) -> list[int]:
        with Client(service.address) as client:
            pieces = list(client.generate(f"Text {number}", options(number, Mode.AR)))
        return [each for piece in pieces for each in piece.token_ids]

    missing = [number for number in range(count) if number not in plain]
    with ThreadPoolExecutor(max_workers=16) as pool:
        plain.update(zip(missing, pool.map(read_plainly, missing), strict=True))
    return [plain[number] for number in range(count)]


def read_by(service: Service, count: int) -> list[Reader]:
    return [Reader(service.address, number) for number in range(count)]


def until_read(readers: list[Reader], num_tokens: int, service: Service) -> None:
    """Wait until that many tokens came, all clients together."""
    until(
        lambda: sum(len(each.token_ids) for each in readers) >= num_tokens,
        *service.processes.values(),
    )


def finish(readers: list[Reader]) -> None:
    for reader in readers:
        reader.thread.join(240)
        assert not reader.thread.is_alive(), "a client waits for ever"
        assert reader.error is None, f"client {reader.number}: {reader.error}"


def worst_gap_s(readers: list[Reader]) -> float:
    return max(reader.longest_gap_s for reader in readers)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("survival")
    write_tiny_pair(folder)
    return folder


@pytest.fixture
def service(folder: Path, tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path, folder / "target", folder / "draft")
    made.defaults = {
        "coordinator__max_sessions": 128,
        "timeouts__lease_s": 60,
        "metrics__enabled": "false",
    }
    yield made
    made.close()


@pytest.mark.parametrize("count", FEW_AND_MANY)
def test_a_coordinator_killed_and_restarted_with_a_journal_loses_no_token(
    service: Service, plain: dict[int, list[int]], tmp_path: Path, count: int
) -> None:
    """kill -9; the models keep their processes and their KV, and the clients resume."""
    service.defaults["coordinator__journal"] = tmp_path / "journal"
    service.start_all()
    texts = expected(service, count, plain)
    pids = {name: each.popen.pid for name, each in service.processes.items()}
    readers = read_by(service, count)
    until_read(readers, random.Random(count).randint(count, 40 * count), service)
    with Client(service.address) as client:
        epochs = {each.session_id: each.epoch for each in client.status().sessions}
    service.processes["coordinator"].kill()
    killed_at = time.monotonic()
    port = service.address.rpartition(":")[2]
    address, service.address = service.address, ""
    assert service.start("coordinator", coordinator__port=port).serves_at() == address
    service.address = address
    service.until_up("verifier-0")
    back_s = time.monotonic() - killed_at
    with Client(service.address) as client:
        again = {each.session_id: each.epoch for each in client.status().sessions}
    finish(readers)
    assert [reader.token_ids for reader in readers] == texts
    for name in ("verifier-0", "drafter-0"):
        os.kill(pids[name], 0)
        assert service.processes[name].popen.poll() is None
    same = [name for name in again if name in epochs and again[name] == epochs[name]]
    assert same or not again, "sessions went on where their KV was"
    log.info(
        f"{count} clients: back after {back_s:.1f} s, longest gap {worst_gap_s(readers):.2f} s, "
        f"{len(same)} of {len(again)} sessions resumed with their KV"
    )


@pytest.mark.parametrize("count", FEW_AND_MANY)
def test_a_verifier_killed_with_a_spare_beside_it_costs_its_clients_a_short_pause(
    service: Service, plain: dict[int, list[int]], count: int
) -> None:
    service.start_all()
    service.start("verifier_service", name="verifier-1").serves_at()
    service.until_up("verifier-1")
    texts = expected(service, count, plain)
    readers = read_by(service, count)
    until_read(readers, random.Random(count).randint(count, 40 * count), service)
    service.processes["verifier-0"].kill()
    finish(readers)
    assert [reader.token_ids for reader in readers] == texts
    log.info(f"{count} clients: longest gap {worst_gap_s(readers):.2f} s with a spare verifier")
    if count > 8:  # a busy machine pauses clients by itself
        assert worst_gap_s(readers) < 2.0


@pytest.mark.soak
def test_a_verifier_killed_alone_costs_its_restart_and_two_seconds_at_most(
    service: Service, plain: dict[int, list[int]]
) -> None:
    service.start_all()
    texts = expected(service, 100, plain)
    readers = read_by(service, 100)
    until_read(readers, 2000, service)
    service.processes["verifier-0"].kill()
    killed_at = time.monotonic()
    service.start("verifier_service", name="verifier-0").serves_at()
    restart_s = time.monotonic() - killed_at
    finish(readers)
    assert [reader.token_ids for reader in readers] == texts
    gap_s = worst_gap_s(readers)
    log.info(f"100 clients: longest gap {gap_s:.2f} s, the restart took {restart_s:.2f} s")
    assert gap_s < restart_s + 2.0


@pytest.mark.soak
def test_a_stopped_drafter_costs_its_drafts_and_nothing_else(tmp_path: Path) -> None:
    """SIGSTOP for 10 s under load, against plain decoding of the same load just before; the median
    of five runs with an embedded pair, whose drafts pay."""
    service = Service(tmp_path, Path("tales"), Path("tales"))
    service.defaults = {"timeouts__peer_dead_s": 1, "metrics__enabled": "false"}
    try:
        service.start_all(models__target_dtype="fp32", models__draft_dtype="fp32")
        runs = [_stop_the_drafter(service) for _ in range(5)]
    finally:
        service.close()
    lowest, after = (statistics.median(column) for column in zip(*runs, strict=True))
    log.info(f"medians: lowest window {lowest:.2f} of plain decoding, after {after:.2f} of before")
    assert lowest >= 0.9
    assert after >= 0.9


def _stop_the_drafter(service: Service) -> tuple[float, float]:
    """The lowest window against plain decoding, and the rate after its return to that before."""
    load = Load(service.address, Mode.AR)
    plain_rate = load.rate_over(1.0, 4.0)
    load.stop()
    load = Load(service.address, Mode.SSD)
    before = load.rate_over(1.5, 5.5)
    drafter = service.processes["drafter-0"].popen
    drafter.send_signal(signal.SIGSTOP)
    stopped_at = load.age_s
    time.sleep(10.0)
    drafter.send_signal(signal.SIGCONT)
    returned_at = load.age_s
    windows = [load.rate(stopped_at + 1 + each, stopped_at + 3 + each) for each in range(0, 8, 2)]
    after = load.rate_over(returned_at + 3.0, returned_at + 7.0)
    load.stop()
    log.info(
        f"tokens/s: plain {plain_rate:.0f}, before {before:.0f}, windows of 2 s from the first "
        f"second on {[round(each) for each in windows]}, from 3 s after its return {after:.0f}"
    )
    return min(windows) / plain_rate, after / before


_STORY = "Once upon a time"


class Load:
    """Four clients that ask again as soon as they are answered."""

    def __init__(self, address: str, mode: Mode) -> None:
        self.began = time.monotonic()
        self._address, self._mode = address, mode
        self._arrivals: list[tuple[float, int]] = []
        self._is_over = False
        self._threads = [threading.Thread(target=self._run, args=(each,)) for each in range(4)]
        for thread in self._threads:
            thread.start()

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.began

    def rate(self, start: float, end: float) -> float:
        """Tokens per second between two times since the beginning."""
        counted = [num for at, num in list(self._arrivals) if start <= at < end]
        return sum(counted) / (end - start)

    def rate_over(self, start: float, end: float) -> float:
        """The same, once the time has come."""
        time.sleep(max(self.began + end - time.monotonic(), 0.0))
        return self.rate(start, end)

    def stop(self) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join(60)

    def _run(self, number: int) -> None:
        with Client(self._address) as client:
            while not self._is_over:
                for piece in client.generate(_STORY, options(number, self._mode)):
                    self._arrivals.append((self.age_s, len(piece.token_ids)))
