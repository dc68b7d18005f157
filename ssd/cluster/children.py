"""Child processes that end when they are told to, and at the latest when their parent does."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_LEASH = Path(__file__).with_name("leash.py")
_GUARD = Path(__file__).with_name("guard.py")


class Child:
    """A running child process in a session of its own, so that Ctrl-C reaches its parent only."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended within the time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, grace_s: float = 10.0) -> None:
        """Ask it to end; when it has not within the grace time, kill its process group."""
        if self.exit_code is None:
            self._process.send_signal(signal.SIGTERM)
        if not self.wait(grace_s):
            self._kill_group()
        self._process.wait()

    def _kill_group(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def start_child(
    name: str, command: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> Child:
    """Start a command that the kernel kills when this process ends; call from the main thread.

    All it writes goes to our standard error: standard output is for what a command answers.
    """
    process = _start(command, signal.SIGKILL, environment=environment, output=sys.stderr.buffer)
    return Child(name, process)


def start_family(
    name: str, command: Sequence[str], *, environment: Mapping[str, str], output: IO[bytes]
) -> Child:
    """Start a command that ends with all its descendants, at the latest when this process does.

    Both its streams are written to `output`; call from the main thread.
    """
    guard = [sys.executable, "-I", "-S", str(_GUARD), *command]
    return Child(name, _start(guard, signal.SIGTERM, environment=environment, output=output))


def _start(
    command: Sequence[str],
    parent_death_signal: signal.Signals,
    *,
    environment: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    leash = [sys.executable, "-I", "-S", str(_LEASH)]
    return subprocess.Popen(
        [*leash, str(os.getpid()), str(int(parent_death_signal)), *command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        start_new_session=True,
    )
