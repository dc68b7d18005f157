"""When a device worked: the spans of rounds and steps, on the host's monotonic clock.

A CPU works when its thread does. A GPU works behind the host, which only queues; there two events
on its stream say for how long, and the host's clock, read once the work is known to be done, when.

    host    ├ queue forward, draw ┤· · · · waits for the ids · · · ·┤ end
    device          ├───────────────── worked ──────────────────────┤
"""

import time
from collections.abc import Callable

import torch

CPU = torch.device("cpu")


class DeviceSpan:
    """Begins with its construction; `clock` tells the host's seconds."""

    def __init__(self, device: torch.device, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._queued_s = clock()
        self._begin: torch.cuda.Event | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.current_stream(device)
            self._begin = torch.cuda.Event(enable_timing=True)
            self._begin.record(self._stream)

    def end(self) -> tuple[float, float]:
        """(start, end) in seconds of the clock; waits for what the device still does."""
        if self._begin is None:
            return self._queued_s, self._clock()
        finish = torch.cuda.Event(enable_timing=True)
        finish.record(self._stream)
        finish.synchronize()
        end_s = self._clock()
        worked_s = self._begin.elapsed_time(finish) / 1e3
        return max(end_s - worked_s, self._queued_s), end_s
