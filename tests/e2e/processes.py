"""The three services as processes, without Ray, as `python -m` starts them."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ssd.client import Client
from ssd.cluster.process_environment import process_environment
from ssd.core.errors import SsdError

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE_S = 90.0  # a start imports torch and transformers, on a machine that may be busy


@dataclass(slots=True)
class Process:
    """One service; its output goes to a file that a failure shows."""

    popen: subprocess.Popen[str]
    log: Path
    errors: Path

    def serves_at(self) -> str:
        """The address it prints once clients can come."""
        until(lambda: self._address() or self.popen.poll() is not None, self)
        address = self._address()
        assert address, f"it ended with {self.popen.returncode}: {self.errors.read_text()}"
        return address

    def terminate(self) -> int:
        """SIGTERM, and its exit code."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(PATIENCE_S)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait(PATIENCE_S)

    def _address(self) -> str:
        said = [line for line in self.log.read_text().splitlines() if " serves at " in line]
        return said[0].rpartition(" ")[2] if said else ""


@dataclass(slots=True)
class Service:
    """A coordinator's address and what runs for it."""

    folder: Path
    target: Path
    draft: Path
    address: str = ""
    processes: dict[str, Process] = field(default_factory=dict)
    defaults: dict[str, object] = field(default_factory=dict)  # settings of every process

    def start(self, module: str, *, name: str = "", **settings: object) -> Process:
        """Start `python -m MODULE`; `settings` are keys with __ for the dot."""
        name = name or module
        chosen = (
            {
                "models__target": self.target,
                "models__draft": self.draft,
                "models__target_dtype": "fp64",
                "models__draft_dtype": "fp64",
                "coordinator__port": 0,
                "timeouts__peer_dead_s": 20,
                "timeouts__drain_s": 5,
                "logging__format": "json",
            }
            | self.defaults
            | settings
        )
        if self.address:
            chosen["cluster__coordinators"] = self.address
        flags = [f"--set={key.replace('__', '.')}={value}" for key, value in chosen.items()]
        log, errors = self.folder / f"{name}.out", self.folder / f"{name}.err"
        log.touch()
        with log.open("w") as out, errors.open("w") as err:
            popen = subprocess.Popen(
                [sys.executable, "-m", module, "--name", name, *flags],
                cwd=CHECKOUT,
                env=environment(),
                stdout=out,
                stderr=err,
                text=True,
            )
        self.processes[name] = Process(popen, log, errors)
        return self.processes[name]

    def start_all(self, **settings: Any) -> None:
        """Coordinator, verifier and drafter, until drafts can flow."""
        self.address = self.start("coordinator", **settings).serves_at()
        verifier = self.start("verifier_service", name="verifier-0", **settings)
        drafter = self.start("drafter_service", name="drafter-0", **settings)
        verifier.serves_at()
        drafter.serves_at()
        self.until_up("verifier-0", "drafter-0")

    def until_up(self, *names: str) -> None:
        def are_up() -> bool:
            try:
                with Client(self.address) as client:
                    workers = client.status().workers
            except SsdError:
                return False
            return {each.worker.name for each in workers if each.is_up} >= set(names)

        until(are_up, *self.processes.values())

    def close(self) -> None:
        for process in self.processes.values():
            if process.popen.poll() is None:
                process.kill()


def environment() -> dict[str, str]:
    """Ours without settings of this project."""
    inherited = process_environment()
    kept = {key: value for key, value in inherited.items() if not key.startswith("SSD_")}
    return kept | {"OMP_NUM_THREADS": "1"}


def until(holds: Callable[[], object], *processes: Process) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        logs = "\n".join(each.errors.read_text()[-2000:] for each in processes)
        assert time.monotonic() < deadline, f"waited in vain:\n{logs}"
        time.sleep(0.05)
