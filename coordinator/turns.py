"""Whose turn it is: so many sessions run at once, and others wait in a queue of fixed length."""

import bisect

from coordinator.live_session import LiveSession
from ssd.core.errors import NoCapacity


class Turns:
    """Counts the sessions that run; those that wait go by priority, then by arrival."""

    def __init__(self, max_sessions: int, max_queue: int) -> None:
        self._max_sessions = max_sessions
        self._max_queue = max_queue
        self._num_running = 0
        self._queue: list[LiveSession] = []

    @property
    def num_running(self) -> int:
        return self._num_running

    @property
    def num_queued(self) -> int:
        return len(self._queue)

    def take(self) -> None:
        """A session runs already, whatever the limit."""
        self._num_running += 1

    async def wait(self, live: LiveSession) -> None:
        """Until fewer than the limit run; a cancelled session leaves the queue at once.

        Raises:
            NoCapacity: the queue is full.
            Cancelled: the session was cancelled meanwhile.
        """
        if self._num_running < self._max_sessions:
            self._num_running += 1
            return
        if len(self._queue) >= self._max_queue:
            raise NoCapacity(
                f"{self._max_sessions} sessions run and {len(self._queue)} requests wait"
            )
        bisect.insort(self._queue, live, key=_priority)
        try:
            while live in self._queue:
                await live.changed.wait()
                live.changed.clear()
                if live.error is not None:
                    raise live.error
        except BaseException:
            if live in self._queue:
                self._queue.remove(live)
            else:
                self.pass_on()  # it came together with the end
            raise

    def pass_on(self) -> None:
        """A session ended: the first in the queue runs in its place."""
        if self._queue:
            self._queue.pop(0).changed.set()
        else:
            self._num_running -= 1


def _priority(live: LiveSession) -> int:
    return live.books.admission.priority
