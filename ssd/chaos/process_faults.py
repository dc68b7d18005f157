"""What may happen to a process (Linux): it dies, stands still, or gets no more memory."""

import os
import resource
import signal
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random

_STILL_S = (0.2, 4.0)
_GONE_S = 10.0
_POLL_S = 0.01


class FaultKind(StrEnum):
    """How a process fails."""

    KILL = "kill"  # SIGKILL: at once, without a word
    ABORT = "abort"  # ends by itself with an exit code that is not 0
    STOP = "stop"  # SIGSTOP, and SIGCONT after a while
    MEMORY = "memory"  # every further allocation fails for a while


_DEADLY = {FaultKind.KILL: signal.SIGKILL, FaultKind.ABORT: signal.SIGABRT}
_KINDS = {
    "verifier": tuple(FaultKind),
    "drafter": tuple(FaultKind),
    "coordinator": (FaultKind.KILL, FaultKind.STOP),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One process of the service fails; `seconds` is how long one stands still."""

    kind: FaultKind
    role: str
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.kind} {self.role}"

    def strike(self, pid: int) -> None:
        """Let it happen, and take back what can be; one that is gone already suffers nothing."""
        try:
            self._strike(pid)
        except ProcessLookupError:
            return

    def _strike(self, pid: int) -> None:
        if self.kind in _DEADLY:
            os.kill(pid, _DEADLY[self.kind])
            _until_gone(pid)
        elif self.kind is FaultKind.STOP:
            os.kill(pid, signal.SIGSTOP)
            try:
                time.sleep(self.seconds)
            finally:  # Ctrl-C: one that stayed stopped would keep its clients for ever
                os.kill(pid, signal.SIGCONT)
        else:
            before = resource.prlimit(pid, resource.RLIMIT_DATA)
            resource.prlimit(pid, resource.RLIMIT_DATA, (1, before[1]))
            try:
                time.sleep(self.seconds)
            finally:
                resource.prlimit(pid, resource.RLIMIT_DATA, before)


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that has ended stays as a zombie until it is waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _until_gone(pid: int) -> None:
    """A killed process looks alive while it gives its memory back."""
    deadline = time.monotonic() + _GONE_S
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def random_fault(rng: Random, roles: tuple[str, ...] = tuple(_KINDS)) -> Fault:
    """A fault that the role can suffer."""
    role = rng.choice(roles)
    return Fault(rng.choice(_KINDS[role]), role, round(rng.uniform(*_STILL_S), 2))
