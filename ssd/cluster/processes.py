"""Find processes by their session and the files they use (Linux: reads /proc)."""

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """A line of the process table; zombies are not listed."""

    pid: int
    parent_pid: int
    session_id: int


def processes() -> list[Process]:
    """Every process this user can see and that has not ended."""
    found = (_read(entry) for entry in _PROC.iterdir() if entry.name.isdigit())
    return [process for process in found if process is not None]


def _read(entry: Path) -> Process | None:
    try:
        status = (entry / "stat").read_text()
    except OSError:  # it ended while we looked
        return None
    # "pid (name) state parent group session ..."; the name may hold spaces and parentheses.
    state, parent_pid, _, session_id = status.rpartition(")")[2].split()[:4]
    if state in "ZX":
        return None
    return Process(int(entry.name), int(parent_pid), int(session_id))


def uses(pid: int, directory: Path) -> bool:
    """Whether the process names the directory on its command line or has a file open below it."""
    entry, prefix = _PROC / str(pid), f"{directory}/"
    try:
        if str(directory) in (entry / "cmdline").read_text(errors="replace"):
            return True
        return any(_target(link).startswith(prefix) for link in (entry / "fd").iterdir())
    except OSError:
        return False


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def with_descendants(pids: Iterable[int], table: Iterable[Process]) -> set[int]:
    """The processes and everything below them."""
    family, table = set(pids), list(table)
    while more := {p.pid for p in table if p.parent_pid in family} - family:
        family |= more
    return family


def kill(pids: Iterable[int], signal_number: signal.Signals) -> None:
    """Send a signal to each process that is still there."""
    for pid in pids:
        try:
            os.kill(pid, signal_number)
        except ProcessLookupError:
            continue


def wait_until(is_done: Callable[[], bool], timeout_s: float) -> bool:
    """Poll until done or out of time; whether it was done."""
    deadline = time.monotonic() + timeout_s
    while not is_done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
