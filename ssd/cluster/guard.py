"""Run a command; when it ends, or SIGTERM comes, kill everything that descends from it.

Run as a script, `python guard.py COMMAND...`. Ray's agents outlive a killed raylet by up to a
minute, and its workers leave its process group, so killing one process or one group is not enough.
The guard is the *subreaper* of its descendants: whoever loses its parent becomes a child of the
guard and is killed in the next turn. Should the guard itself be killed, the command dies with it.

It imports the standard library only, for it runs as long as Ray does: 9 MB.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

PR_SET_CHILD_SUBREAPER = 36
_LEASH = Path(__file__).with_name("leash.py")
_POLL_S = 0.01


class _Terminated(Exception):
    pass


def main() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")
    try:
        signal.signal(signal.SIGTERM, _terminate)
        return _run(sys.argv[1:])
    except _Terminated:
        return 0
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _kill_descendants()


def _terminate(signal_number: int, frame: FrameType | None) -> None:
    raise _Terminated


def _run(command: list[str]) -> int:
    leash = [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), str(int(signal.SIGKILL))]
    child = subprocess.Popen([*leash, *command])
    while True:
        pid, status = os.wait()  # adopted children too
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode


def _kill_descendants() -> None:
    while children := _children():
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)
        _reap()


def _children() -> list[int]:
    """Children that run or were not waited for: their ids cannot be reused meanwhile."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if _parent(entry) == os.getpid()]


def _parent(entry: Path) -> int | None:
    try:
        # "pid (name) state parent ..."; the name may hold spaces and parentheses.
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    sys.exit(main())
