"""A Ray of our own on this machine: `ray start --head --block` as a child process.

`ray.init()` would start Ray inside the service, and its agents outlive a crash. A child in a
session of its own, below a guard (`guard.py`), ends as a whole, and does so when we are killed.

Everything Ray writes lies in one directory with a random name. A state file in the run directory
names it before it exists, so whatever the moment of a crash, `LocalRay.from_state(run_dir).stop()`
finds what was left. A process is taken for ours only if it belongs to the session of our guard
*and* uses the directory (or descends from one that does): a reused process id harms nobody, and
another Ray of the same user is never touched.

Ray listens on the machine's address, whatever it is told, and runs code for whoever can connect:
hence a token of its own for each Ray (RAY_AUTH_MODE, RAY_AUTH_TOKEN_PATH; inherited by all its
processes), in a file that only this user can read. The user's ~/.ray is not touched.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ssd.cluster.children import Child, start_family
from ssd.cluster.process_environment import process_environment
from ssd.cluster.processes import kill, processes, uses, wait_until, with_descendants
from ssd.core.errors import ConfigError, SsdError, Unavailable

_STATE_FILE = "ray.json"
_ADDRESS_FILE = "ray_current_cluster"  # `ray start` writes it when everything is up
_OBJECT_STORE_BYTES = 100_000_000  # nothing of ours travels through it
_STOP_S = 5.0
# Below the range of the kernel, so that nobody is given one between our look and Ray's use.
_PORTS = range(20_000, 32_000)

_SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_enable_metrics_collection": "0",  # our services have metrics of their own
    "RAY_enable_worker_prestart": "0",  # idle worker processes, 60 MB each
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_niceness": "0",  # Ray's 15 would let everything else on the machine go first
}
_NOT_INHERITED = ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_NAMESPACE")


@dataclass(frozen=True, slots=True)
class _State:
    """What the state file holds; `pid` and `address` come once they are known."""

    directory: str
    pid: int | None = None
    address: str | None = None


class LocalRay:
    """The Ray that one run directory owns."""

    def __init__(self, run_dir: Path, state: _State, child: Child | None = None) -> None:
        self.run_dir = run_dir
        self._state = state
        self._child = child

    @classmethod
    def start(
        cls,
        run_dir: Path,
        *,
        num_cpus: int | None = None,
        num_gpus: int | None = None,
        timeout_s: float = 60.0,
    ) -> "LocalRay":
        """Start Ray and wait until it answers; None lets Ray count the CPUs or GPUs itself.

        Call it from the main thread: Ray is killed when the calling thread ends.

        Raises:
            ConfigError: this run directory has a running Ray already.
            Unavailable: Ray did not come up.
        """
        local_ray = cls.prepare(run_dir)
        try:
            local_ray.bring_up(num_cpus=num_cpus, num_gpus=num_gpus, timeout_s=timeout_s)
        except BaseException:  # Ctrl-C included
            local_ray.stop()
            raise
        return local_ray

    @classmethod
    def prepare(cls, run_dir: Path) -> "LocalRay":
        """Clear away what a crash left in the run directory; nothing is started yet.

        `bring_up` starts it, and `stop` may be called at any moment from here on.
        """
        previous = cls.from_state(run_dir)
        if previous is not None and previous.is_running:
            raise ConfigError(f"a Ray started from {run_dir} is running; end it with `ssd down`")
        if previous is not None:
            previous.stop()
        return cls(run_dir, _State(str(_new_directory())))

    @classmethod
    def from_state(cls, run_dir: Path) -> "LocalRay | None":
        """The Ray that the state file names, running or left over; None without such a file."""
        try:
            text = (run_dir / _STATE_FILE).read_text()
        except FileNotFoundError:
            return None
        try:
            return cls(run_dir, _State(**json.loads(text)))
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{run_dir / _STATE_FILE} is damaged ({error}): remove it") from error

    @property
    def address(self) -> str:
        """host:port for `ray.init(address=...)`."""
        if self._state.address is None:
            raise Unavailable(f"the Ray of {self.run_dir} has not come up")
        return self._state.address

    @property
    def token_path(self) -> Path:
        """The file with this Ray's token; a driver needs it."""
        return self._directory / "token"

    @property
    def is_running(self) -> bool:
        """Whether the guard lives: it ends with Ray, and Ray with it."""
        if self._child is not None:
            return self._child.exit_code is None
        return self._state.pid in self.process_ids()

    def process_ids(self) -> set[int]:
        """Every process of this Ray, workers and what they started included."""
        if self._state.pid is None:
            return set()
        table = processes()
        session = (p.pid for p in table if p.session_id == self._state.pid)
        return with_descendants((pid for pid in session if uses(pid, self._directory)), table)

    def stop(self) -> None:
        """End every process of this Ray and remove its files; harmless when repeated."""
        if self.is_running and self._state.pid is not None:
            kill([self._state.pid], signal.SIGTERM)
            wait_until(self._has_ended, _STOP_S)
        # Only a guard that was killed leaves work here; a dying process may start another.
        if not wait_until(self._kill_remaining, _STOP_S):
            raise SsdError(f"processes {sorted(self.process_ids())} of Ray cannot be ended")
        if self._child is not None:
            self._child.stop(grace_s=0)
        shutil.rmtree(self._directory, ignore_errors=True)
        recorded = LocalRay.from_state(self.run_dir)
        if recorded is not None and recorded._directory == self._directory:
            (self.run_dir / _STATE_FILE).unlink(missing_ok=True)
        with suppress(OSError):  # somebody else's files are in it, or it was never made
            self.run_dir.rmdir()

    def _has_ended(self) -> bool:
        if self._child is not None:
            self._child.wait(0)  # reaps it
        return not self.process_ids()

    def _kill_remaining(self) -> bool:
        kill(self.process_ids(), signal.SIGKILL)
        return self._has_ended()

    @property
    def _directory(self) -> Path:
        return Path(self._state.directory)

    @property
    def _ray_directory(self) -> Path:
        """Ray opens its own directory to everybody; ours around it stays private."""
        return self._directory / "ray"

    def bring_up(
        self, *, num_cpus: int | None = None, num_gpus: int | None = None, timeout_s: float = 60.0
    ) -> None:
        """Start what `prepare` prepared; whoever calls this calls `stop`, also when it raises."""
        self._claim_run_dir()
        self._directory.mkdir(mode=0o700)
        self._ray_directory.mkdir()
        _write_private(self.token_path, secrets.token_hex(32))
        # The environment is handed on, not read: worker processes need the user's own settings.
        inherited = process_environment()
        environment = {k: v for k, v in inherited.items() if k not in _NOT_INHERITED}
        environment |= _SETTINGS | {"RAY_AUTH_TOKEN_PATH": str(self.token_path)}
        with (self._directory / "start.log").open("wb") as log:
            command = _command(self._ray_directory, num_cpus, num_gpus)
            self._child = start_family("ray", command, environment=environment, output=log)
        self._save(replace(self._state, pid=self._child.pid))
        self._wait_until_up(timeout_s)
        self._save(replace(self._state, address=self._read_address()))

    def _wait_until_up(self, timeout_s: float) -> None:
        child = self._child
        assert child is not None
        wait_until(lambda: child.exit_code is not None or self._read_address() != "", timeout_s)
        if self._read_address() == "":
            log = (self._directory / "start.log").read_text(errors="replace")
            end = " / ".join(log.splitlines()[-3:])
            raise Unavailable(f"Ray did not start within {timeout_s:g} s: {end}")

    def _read_address(self) -> str:
        try:
            return (self._ray_directory / _ADDRESS_FILE).read_text().strip()
        except FileNotFoundError:
            return ""

    def _claim_run_dir(self) -> None:
        self.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            _write_private(self.run_dir / _STATE_FILE, json.dumps(asdict(self._state)))
        except FileExistsError:
            raise ConfigError(f"another service is starting in {self.run_dir}") from None

    def _save(self, state: _State) -> None:
        self._state = state
        draft = self.run_dir / f"{_STATE_FILE}.{secrets.token_hex(4)}"
        _write_private(draft, json.dumps(asdict(state)))
        draft.replace(self.run_dir / _STATE_FILE)


def _new_directory() -> Path:
    # Not below the run directory: Ray's socket paths must stay under 107 characters.
    return Path(tempfile.gettempdir()) / f"ssd-ray-{secrets.token_hex(4)}"


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _command(directory: Path, num_cpus: int | None, num_gpus: int | None) -> list[str]:
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
        f"--temp-dir={directory}",
        "--port=0",
        *("--min-worker-port=0", "--max-worker-port=0"),
        f"--ray-client-server-port={_free_port()}",  # 10001 otherwise; it always runs
        f"--object-store-memory={_OBJECT_STORE_BYTES}",
        *("--include-dashboard=false", "--include-log-monitor=false"),
        *("--no-monitor", "--disable-usage-stats"),
    ]
    if num_cpus is not None:
        command.append(f"--num-cpus={num_cpus}")
    if num_gpus is not None:
        command.append(f"--num-gpus={num_gpus}")
    return command


def _free_port() -> int:
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
