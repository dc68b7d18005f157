"""A network for measurements: what goes in comes out later, in order.

The event loop's own timers round up to whole milliseconds, so a thread does the waiting.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable


class DelayLine:
    """Calls what it is given on the event loop it was made in, `delay_s` later; 0 is at once."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.SimpleQueue[tuple[float, Callable[[], None]] | None] = (
            queue.SimpleQueue()
        )
        if delay_s > 0:
            threading.Thread(target=self._run, name="delay-line", daemon=True).start()

    def put(self, call: Callable[[], None]) -> None:
        if self._delay_s > 0:
            self._waiting.put((time.monotonic() + self._delay_s, call))
        else:
            call()

    def close(self) -> None:
        """Nothing goes in any more."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            due, call = item
            time.sleep(max(due - time.monotonic(), 0.0))
            try:
                self._loop.call_soon_threadsafe(call)
            except RuntimeError:  # the loop has been closed
                return
