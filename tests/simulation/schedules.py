"""Plays random schedules, and cuts one that fails down to what it needs to fail."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ssd.core.client_session import Admission
from tests.simulation.scenario import Scenario, random_scenario
from tests.simulation.world import World

MAX_SIZE = 5
_SHRINK_S = 30.0


@dataclass(frozen=True, slots=True)
class Cut:
    """What is left of a schedule; None leaves all of it."""

    sessions: frozenset[str] | None = None
    faults: frozenset[int] | None = None
    num_drafters: int | None = None
    max_output: int | None = None

    def apply(self, scenario: Scenario) -> Scenario:
        """The smaller schedule: the same seed, so that what is left happens much as before."""
        kept = [each for each in scenario.admissions if self._keeps(each)]
        return replace(
            scenario,
            admissions=tuple(self._shorter(each) for each in kept),
            drafts=scenario.drafts[: self.num_drafters],
            drafter_limits=scenario.drafter_limits[: self.num_drafters],
            kept_faults=self.faults,
        )

    def _keeps(self, admission: Admission) -> bool:
        return self.sessions is None or admission.session_id in self.sessions

    def _shorter(self, admission: Admission) -> Admission:
        if self.max_output is None:
            return admission
        longest = len(admission.prompt_token_ids) + self.max_output
        return replace(admission, max_len=min(admission.max_len, longest))


WHOLE = Cut()


def play(seed: int, *, size: int, cut: Cut = WHOLE) -> World:
    """One schedule; the same values replay it exactly.

    Raises:
        AssertionError: a promise of the core was broken.
    """
    world = World(cut.apply(random_scenario(seed, size=size)))
    world.run()
    return world


def play_all(seeds: Iterable[int], *, until_s: float = 0.0, at_least: int = 0) -> int:
    """Play seeds until the clock says `until_s`, but `at_least` so many; how many were played.

    Raises:
        AssertionError: a promise of the core was broken; the message names the shortest schedule
            that was found to break it, with all that happened in it.
    """
    count = 0
    for seed in seeds:
        if count >= at_least and time.monotonic() >= until_s:
            break
        failure = failure_of(seed, 1 + seed % MAX_SIZE)
        if failure is not None:
            raise AssertionError(f"seed {seed} of size {failure.size}: {shortest(failure)}")
        count += 1
    return count


class Failure:
    """A schedule that broke a promise."""

    def __init__(self, seed: int, size: int, cut: Cut, world: World, error: Exception) -> None:
        self.seed, self.size, self.cut, self.error = seed, size, cut, error
        self.world = world

    @property
    def weight(self) -> tuple[int, int, int, int, int]:
        """Of two that fail alike the lighter says more."""
        scenario = self.world.scenario
        kept = self.cut.faults
        return (
            len(scenario.admissions),
            self.world.faults.num_struck if kept is None else len(kept),
            len(scenario.drafts),
            sum(each.max_len for each in scenario.admissions),
            self.world.loop.num_events,
        )

    def __str__(self) -> str:
        return (
            f"{type(self.error).__name__}: {self.error}\n"
            f"replay with play({self.seed}, size={self.size}, cut={self.cut}), "
            f"{self.world.loop.num_events} events:\n" + "\n".join(self.world.log)
        )


def failure_of(seed: int, size: int, cut: Cut = WHOLE) -> Failure | None:
    """How a schedule fails, if it does."""
    world = World(cut.apply(random_scenario(seed, size=size)))
    try:
        world.run()
    except Exception as error:  # whatever broke, it is to be reported with its schedule
        return Failure(seed, size, cut, world, error)
    return None


def shortest(failure: Failure) -> Failure:
    """Take away sessions, faults, drafters and length for as long as it fails the same way."""
    give_up_s = time.monotonic() + _SHRINK_S
    best, is_better = failure, True
    while is_better:
        is_better = False
        for cut in _smaller(best):
            if time.monotonic() > give_up_s:
                return best
            found = failure_of(best.seed, best.size, cut)
            if found is None or type(found.error) is not type(best.error):
                continue
            if found.weight < best.weight:
                best, is_better = found, True
                break
    return best


def _smaller(failure: Failure) -> Iterator[Cut]:
    """The boldest cuts first: half of the sessions, half of the faults, one of them."""
    cut, world = failure.cut, failure.world
    names = sorted(each.session_id for each in world.scenario.admissions)
    for left in _subsets(names):
        if left:
            yield replace(cut, sessions=frozenset(left))
    numbers = range(world.faults.num_struck) if cut.faults is None else sorted(cut.faults)
    for kept in _subsets(list(numbers)):
        yield replace(cut, faults=frozenset(kept))
    for count in range(len(world.scenario.drafts)):
        yield replace(cut, num_drafters=count)
    longest = max(each.max_len - len(each.prompt_token_ids) for each in world.scenario.admissions)
    for length in dict.fromkeys((longest // 2, longest - 1)):
        if length > 0:
            yield replace(cut, max_output=length)


def _subsets(items: list[Any]) -> Iterator[list[Any]]:
    """Nothing, each half, and all but one."""
    if not items:
        return
    yield []
    middle = len(items) // 2
    if middle:
        yield items[:middle]
        yield items[middle:]
    if len(items) > 2:
        for index in range(len(items)):
            yield [*items[:index], *items[index + 1 :]]
