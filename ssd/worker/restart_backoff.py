"""A worker that dies again and again waits before it loads its model once more.

Ray starts a dead actor again at once and for ever. What cannot run would keep the machine busy with
loading models, so each start notes its time in a small file, and starts in close succession wait
ever longer before the expensive part.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

_WITHIN_S = 120.0
_FREE_STARTS = 3
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0


def pause_before_start(earlier: Sequence[float], now: float) -> float:
    """Seconds to wait, given when earlier starts were; the first few of two minutes are free."""
    recent = sum(now - _WITHIN_S <= each <= now for each in earlier)
    if recent < _FREE_STARTS:
        return 0.0
    return float(min(_FIRST_PAUSE_S * 2.0 ** (recent - _FREE_STARTS), _LONGEST_PAUSE_S))


class StartNotes:
    """When the worker of one place was started, kept over its processes' lives."""

    def __init__(self, place: str, *, folder: Path | None = None) -> None:
        """`place` is unique on the machine: a worker's name and whom it serves."""
        root = Path(tempfile.gettempdir()) / f"ssd-starts-{os.getuid()}"
        digest = hashlib.sha256(place.encode()).hexdigest()[:16]
        self._path = (folder or root) / digest

    def note(self, now: float) -> list[float]:
        """The earlier starts of the last minutes, and this one added to them."""
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        earlier = [each for each in self._read() if now - _WITHIN_S <= each <= now]
        self._path.write_text("\n".join(str(each) for each in (*earlier, now)), "utf-8")
        return earlier

    def _read(self) -> list[float]:
        try:
            return [float(line) for line in self._path.read_text("utf-8").split()]
        except (OSError, ValueError):  # none yet, or one that a crash cut short
            return []


def wait_before_restart(place: str) -> float:
    """Note a start and wait as long as the earlier ones ask for; the seconds waited."""
    now = time.time()
    pause_s = pause_before_start(StartNotes(place).note(now), now)
    time.sleep(pause_s)
    return pause_s
