"""Simulated time, and channels that deliver messages as badly as they are told to."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Action = Callable[[], None]


class EventLoop:
    """Runs actions in order of simulated time; of equal times the first planned comes first."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.num_events = 0
        self._planned: list[tuple[float, int, Action]] = []
        self._num_planned = 0

    def after(self, delay_s: float, action: Action) -> None:
        self._num_planned += 1
        heapq.heappush(self._planned, (self.now + delay_s, self._num_planned, action))

    def time(self) -> float:
        return self.now

    def run_next(self) -> bool:
        """Run one action; False when none is left."""
        if not self._planned:
            return False
        self.now, _, action = heapq.heappop(self._planned)
        self.num_events += 1
        action()
        return True


@dataclass(slots=True)
class FaultBudget:
    """How much may still go wrong. It runs out, so that every schedule ends.

    Faults are numbered as they strike; of a schedule that is cut down only those in `kept` do.
    """

    rng: Random
    num_left: int
    kept: frozenset[int] | None = None
    num_struck: int = 0

    def strikes(self, chance: float) -> bool:
        """Whether a fault that has this chance happens now."""
        if self.num_left > 0 and self.rng.random() < chance:
            self.num_left -= 1
            self.num_struck += 1
            return self.kept is None or self.num_struck - 1 in self.kept
        return False


@dataclass(frozen=True, slots=True)
class Weather:
    """Chances, per message, of what a channel does beside delivering it once and in order."""

    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    delays_s: tuple[float, ...] = (0.0, 0.0002, 0.0002, 0.001, 0.004, 0.02)

    @property
    def is_reliable(self) -> bool:
        return not (self.drop or self.duplicate or self.reorder)


CALM = Weather(delays_s=(0.0002,))


class Channel:
    """One direction between two processes."""

    def __init__(self, loop: EventLoop, faults: FaultBudget, weather: Weather) -> None:
        self._loop = loop
        self._faults = faults
        self._weather = weather
        self._last_arrival = 0.0

    def send(self, deliver: Action) -> None:
        if self._faults.strikes(self._weather.drop):
            return
        self._deliver(deliver)
        if self._faults.strikes(self._weather.duplicate):
            self._deliver(deliver)

    def _deliver(self, deliver: Action) -> None:
        delay_s = self._faults.rng.choice(self._weather.delays_s)
        arrival = self._loop.now + delay_s
        if not self._faults.strikes(self._weather.reorder):
            arrival = max(arrival, self._last_arrival)
            self._last_arrival = arrival
        else:
            arrival += 0.03
        self._loop.after(arrival - self._loop.now, deliver)
