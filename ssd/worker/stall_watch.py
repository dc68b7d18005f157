"""Whether an engine that has work still does any.

A worker whose engine hangs answers its heartbeats and serves nobody, so it ends itself and is
started again. Only time in which this process ran counts: one that was stopped for an hour and
continued finds its engine where it left it.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import structlog

STALLED_EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h, as for an engine that died
_LOOKS_PER_LIMIT = 20
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Pulse:
    """What an engine is at: whether it has work, and a counter that moves when it does some."""

    has_work: bool
    num_done: int


class StallWatch:
    """Adds up the time since the counter last moved while there was work. No clock of its own."""

    def __init__(self) -> None:
        self.stalled_s = 0.0
        self._last = Pulse(has_work=False, num_done=0)

    def look(self, pulse: Pulse, *, elapsed_s: float) -> None:
        """Take the pulse; `elapsed_s` of this process's own time went by since the last look."""
        is_standing = pulse.has_work and pulse == self._last
        self.stalled_s = self.stalled_s + elapsed_s if is_standing else 0.0
        self._last = pulse


async def watch_for_stall(
    pulses: Callable[[], tuple[Pulse, ...]], limit_s: float, *, stalled: Callable[[float], None]
) -> None:
    """Call `stalled(seconds)` when an engine has stood still for too long; runs until cancelled."""
    watches = [StallWatch() for _ in pulses()]
    period_s = limit_s / _LOOKS_PER_LIMIT
    while True:
        await asyncio.sleep(period_s)
        for watch, pulse in zip(watches, pulses(), strict=True):
            watch.look(pulse, elapsed_s=period_s)  # however late this look comes
            if watch.stalled_s >= limit_s:
                stalled(watch.stalled_s)


def exit_when_engine_stalls(seconds: float) -> None:
    """End the process, whatever else runs in it."""
    log.error("engine stalled", stalled_s=round(seconds, 1))
    sys.stderr.flush()
    os._exit(STALLED_EXIT_CODE)
