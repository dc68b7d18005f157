"""Everything on one machine, ended in order: the children, then the workers, then Ray.

    with Launcher(run_dir) as launcher:
        launcher.start_ray(num_cpus=2)
        launcher.place(workers)
        launcher.start_child("coordinator", [sys.executable, "-m", "coordinator", ...])
        exit_code = launcher.wait()

SIGINT and SIGTERM raise KeyboardInterrupt wherever the block stands, start-up included. Leaving the
block cleans up, in that order whatever was started first, and signals are ignored meanwhile. Ray is
known to the clean-up before it begins to start; a child that an interrupt orphans in the instant of
its birth is killed by the kernel when this process ends.
"""

import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from ssd.cluster.children import Child, start_child
from ssd.cluster.local_ray import LocalRay
from ssd.cluster.placement import place, remove
from ssd.cluster.process_environment import process_environment
from ssd.cluster.workers import PlacedWorker, WorkerSpec
from ssd.core.errors import Unavailable

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_WATCH_S = 0.2
_CHILD_GRACE_S = 10.0


class Launcher:
    """Owns a local Ray, the workers on it and child processes; use it in a `with`, main thread."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._children: list[Child] = []
        self._grace_s: dict[int, float] = {}  # by process id
        self._commands: dict[str, tuple[str, ...]] = {}  # by name
        self._ray: LocalRay | None = None
        self._has_workers = False
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Launcher":
        for number in _SIGNALS:
            self._handlers[number] = signal.signal(number, _interrupt)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        try:
            self._end_everything()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def start_ray(self, *, num_cpus: int | None = None, num_gpus: int | None = None) -> LocalRay:
        """Start the Ray of the run directory; see `LocalRay.start`."""
        self._ray = LocalRay.prepare(self._run_dir)
        self._ray.bring_up(num_cpus=num_cpus, num_gpus=num_gpus)
        return self._ray

    def place(
        self, workers: Sequence[WorkerSpec], *, require_gpu: bool = False, deadline_s: float = 300.0
    ) -> list[PlacedWorker]:
        """Place workers on the Ray that was started; see `placement.place`."""
        assert self._ray is not None, "start_ray comes first"
        self._has_workers = True
        return place(
            workers,
            address=self._ray.address,
            token_path=self._ray.token_path,
            require_gpu=require_gpu,
            deadline_s=deadline_s,
        )

    def start_child(
        self, name: str, command: Sequence[str], *, grace_s: float = _CHILD_GRACE_S
    ) -> Child:
        """Start a process that is stopped before the workers are, and dies with this one.

        It gets `grace_s` to end by itself once it is asked to.
        """
        child = start_child(name, command, environment=process_environment())
        self._children.append(child)
        self._grace_s[child.pid] = grace_s
        self._commands[name] = tuple(command)
        return child

    def child_named(self, name: str) -> Child:
        """The newest child that was started under a name."""
        return next(child for child in reversed(self._children) if child.name == name)

    def start_again(self, name: str) -> None:
        """Start a child anew if it has ended; nothing else does that."""
        ended = self.child_named(name)
        if ended.exit_code is not None:
            self._children.remove(ended)
            self.start_child(name, self._commands[name], grace_s=self._grace_s[ended.pid])

    def ended_child(self) -> Child | None:
        """The first child that has ended, if one has."""
        return next((each for each in self._children if each.exit_code is not None), None)

    def wait(self) -> int:
        """Return the exit code of the first child that ends.

        Raises:
            Unavailable: Ray has ended.
        """
        while True:
            ended = self.ended_child()
            if ended is not None and ended.exit_code is not None:
                return ended.exit_code
            if self._ray is not None and not self._ray.is_running:
                raise Unavailable("Ray has ended")
            time.sleep(_WATCH_S)

    def _end_everything(self) -> None:
        """Every step is taken, also when one before it fails."""
        with ExitStack() as last_in_first_out:
            if self._ray is not None:
                last_in_first_out.callback(self._ray.stop)
                last_in_first_out.callback(self._remove_workers)
            for child in self._children:
                last_in_first_out.callback(child.stop, self._grace_s[child.pid])

    def _remove_workers(self) -> None:
        if self._has_workers and self._ray is not None and self._ray.is_running:
            remove(address=self._ray.address, token_path=self._ray.token_path)


def _interrupt(signal_number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
