"""Plays random schedules, and finds the shortest one that still fails."""

import time
from collections.abc import Iterable

from tests.simulation.scenario import random_scenario
from tests.simulation.world import World

MAX_SIZE = 5
_SEEDS_PER_SIZE = 300
_SHRINK_S = 30.0


def play(seed: int, *, size: int) -> World:
    """One schedule; the same two numbers replay it exactly.

    Raises:
        AssertionError: a promise of the core was broken; the message names the shortest schedule
            that was found to break one, with all that happened in it.
    """
    world = World(random_scenario(seed, size=size))
    world.run()
    return world


def play_all(seeds: Iterable[int], *, until_s: float = 0.0, at_least: int = 0) -> int:
    """Play seeds until the clock says `until_s`, but `at_least` so many; how many were played."""
    count = 0
    for seed in seeds:
        if count >= at_least and time.monotonic() >= until_s:
            break
        error = _failure(seed, 1 + seed % MAX_SIZE)
        if error is not None:
            raise AssertionError(f"seed {seed} of size {1 + seed % MAX_SIZE}: {shortest(error)}")
        count += 1
    return count


def shortest(error: "Failure") -> "Failure":
    """The failure with the fewest events among small schedules, or the given one."""
    give_up_s = time.monotonic() + _SHRINK_S
    best = error
    for size in range(1, MAX_SIZE + 1):
        for seed in range(_SEEDS_PER_SIZE):
            if time.monotonic() > give_up_s:
                return best
            found = _failure(seed, size)
            if found is not None and found.num_events < best.num_events:
                best = found
        if best is not error:
            break
    return best


class Failure:
    """A schedule that broke a promise."""

    def __init__(self, seed: int, size: int, world: World, error: Exception) -> None:
        self.seed, self.size, self.error = seed, size, error
        self.num_events = world.loop.num_events
        self.log = tuple(world.log)

    def __str__(self) -> str:
        return (
            f"{type(self.error).__name__}: {self.error}\n"
            f"replay with play({self.seed}, size={self.size}), {self.num_events} events:\n"
            + "\n".join(self.log)
        )


def _failure(seed: int, size: int) -> Failure | None:
    world = World(random_scenario(seed, size=size))
    try:
        world.run()
    except Exception as error:  # whatever broke, it is to be reported with its schedule
        return Failure(seed, size, world, error)
    return None
