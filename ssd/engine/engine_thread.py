"""The one thread of a worker that touches its model and its state machine.

Everything else posts events to it and gets outputs back: while the next forward runs, so that
passing them on takes no time between two forwards, or at once where none is to run. It sleeps only
when the machine has nothing to do, and then until the next event or the time the machine named; it
never polls. Its death is the process's: a worker without an engine must not look alive.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

import torch

from ssd.core.rows import Meanwhile
from ssd.threads import pin_thread, run_long

Output = TypeVar("Output")
Result = TypeVar("Result")
Event = Callable[[], list[Output]]


class Machine(Protocol[Output]):
    """What the thread drives."""

    def run(self, meanwhile: Meanwhile) -> bool:
        """Run the next forward; False when there is none to run now.

        `meanwhile` passes on what came of the last one, at the machine's own moment.
        """
        ...

    def settle(self) -> list[Output]:
        """What the forward that ran brought. Events that came meanwhile were handled before."""
        ...

    def wake_at(self) -> float | None:
        """When to ask again although no event came, on `time.monotonic`; None for never."""
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
        self.is_busy = False  # running or handling something; asleep otherwise
        self.num_turns = 0
        self._is_stopping = False
        self._outputs: list[Output] = []  # not passed on yet
        self._events: queue.SimpleQueue[Event[Output]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def post(self, event: Event[Output]) -> None:
        """Run `event` on the engine thread before its next piece of work."""
        self._events.put(event)

    def stop(self) -> None:
        """End after the piece of work at hand, and wait for it."""
        self._events.put(self._stop_running)
        self._thread.join()

    def _stop_running(self) -> list[Output]:
        self._is_stopping = True
        return []

    def _run(self) -> None:
        try:
            _settle_down(self._core, self._num_threads)
            try:
                self._loop()
            finally:
                self._pass_on()
        except BaseException as error:
            self._died(error)
            raise

    def _loop(self) -> None:
        while not self._is_stopping:
            self.is_busy = True
            self.num_turns += 1
            if self._machine.run(self._pass_on):
                self._handle(self._waiting_events())
                self._take(self._machine.settle())
            else:
                self._pass_on()
                self._handle([self._next_event(self._machine.wake_at())])
            self._handle(self._waiting_events())

    def _handle(self, events: Iterable[Event[Output] | None]) -> None:
        for event in events:
            if event is not None:
                self._take(event())

    def _take(self, outputs: list[Output]) -> None:
        if outputs:
            self._machine.release(outputs)
            self._outputs += outputs

    def _pass_on(self) -> None:
        if self._outputs:
            outputs, self._outputs = self._outputs, []
            self._deliver(outputs)

    def _next_event(self, until: float | None) -> Event[Output] | None:
        """Sleep until an event comes or the time has; None when no event came."""
        timeout_s = None if until is None else max(until - time.monotonic(), 0.0)
        self.is_busy = False
        try:
            return self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None
        finally:
            self.is_busy = True

    def _waiting_events(self) -> Iterator[Event[Output]]:
        while True:
            try:
                yield self._events.get_nowait()
            except queue.Empty:
                return


def run_like_engine(work: Callable[[], Result], *, core: int | None, num_threads: int) -> Result:
    """Do some work on a thread with an engine's core and CPU threads, and wait for it.

    What is measured before the engine starts would otherwise be measured on other cores.
    """

    def on_core() -> Result:
        _settle_down(core, num_threads)
        return work()

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="warm-up") as pool:
        return pool.submit(on_core).result()


def _settle_down(core: int | None, num_threads: int) -> None:
    """Several threads are bound to no core: those that torch starts would share the first one's."""
    pin_thread(core if num_threads == 1 else None)
    run_long()
    torch.set_num_threads(num_threads)
