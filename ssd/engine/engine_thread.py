"""The one thread of a worker that touches its model and its state machine.

Everything else posts events to it and gets outputs back. It sleeps only when the machine has nothing
to do, and then until the next event or the time the machine named; it never polls. Its death is the
process's: a worker without an engine must not look alive.
"""

import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import torch

Output = TypeVar("Output")
Event = Callable[[], list[Output]]


class Machine(Protocol[Output]):
    """What the thread drives."""

    def turn(self) -> tuple[list[Output], float | None]:
        """Do one piece of work; its outputs, and when to be called again.

        The time is on `time.monotonic`; 0 means at once, None after the next event.
        """
        ...

    def release(self, outputs: list[Output]) -> None:
        """Free what the outputs, of work or of an event, let go."""
        ...


class EngineThread(Generic[Output]):
    """Runs a machine until `stop`. `deliver` and `died` are called on this thread."""

    def __init__(
        self,
        name: str,
        machine: Machine[Output],
        *,
        deliver: Callable[[list[Output]], None],
        died: Callable[[BaseException], None],
        core: int | None = None,
        num_threads: int = 1,
    ) -> None:
        self._machine = machine
        self._deliver = deliver
        self._died = died
        self._core = core
        self._num_threads = num_threads
        self._events: queue.SimpleQueue[Event[Output] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def post(self, event: Event[Output]) -> None:
        """Run `event` on the engine thread before its next piece of work."""
        self._events.put(event)

    def stop(self) -> None:
        """End after the piece of work at hand, and wait for it."""
        self._events.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            pin_thread(self._core)
            torch.set_num_threads(self._num_threads)
            self._loop()
        except BaseException as error:
            self._died(error)
            raise

    def _loop(self) -> None:
        until: float | None = None
        while True:
            for event in self._take_events(until):
                if event is None:
                    return
                self._hand_over(event())
            outputs, until = self._machine.turn()
            self._hand_over(outputs)

    def _hand_over(self, outputs: list[Output]) -> None:
        if outputs:
            self._machine.release(outputs)
            self._deliver(outputs)

    def _take_events(self, until: float | None) -> list[Event[Output] | None]:
        """All waiting events; waits for the first one as long as the machine allows."""
        events: list[Event[Output] | None] = []
        try:
            if until is None:
                events.append(self._events.get())
            elif (timeout_s := until - time.monotonic()) > 0:
                events.append(self._events.get(timeout=timeout_s))
            while True:
                events.append(self._events.get_nowait())
        except queue.Empty:
            return events


def pin_thread(core: int | None) -> None:
    """Keep the calling thread on one CPU core, where the platform can and a core is named."""
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
