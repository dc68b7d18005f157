"""One fault after the other, each after the service stands again, while clients stream."""

import time
from collections.abc import Callable
from random import Random
from typing import Protocol

from ssd.chaos.process_faults import Fault, random_fault
from ssd.chaos.report import ChaosReport
from ssd.chaos.streams import Case, Connect, Streams

_PAUSE_S = (0.5, 4.0)


class Victims(Protocol):
    """The processes of a service."""

    connect: Connect

    def pid_of(self, role: str) -> int | None:
        """A process of the role, None while there is none."""

    def stand_up(self) -> None:
        """Start again what nobody else does, and return when all of it serves."""


def run_chaos(
    victims: Victims,
    cases: tuple[Case, ...],
    *,
    seconds: float,
    num_streams: int,
    seed: int,
    progress: Callable[[Fault, float], None],
) -> ChaosReport:
    """Faults of real processes for so long; `progress` hears of each, and of the time spent."""
    rng = Random(seed)
    report = ChaosReport(seed=seed, num_streams=num_streams)
    began = time.monotonic()
    with Streams(victims.connect, cases, num_streams) as streams:
        while (spent_s := time.monotonic() - began) < seconds:
            fault = random_fault(rng)
            progress(fault, spent_s)
            time.sleep(rng.uniform(*_PAUSE_S))
            pid = victims.pid_of(fault.role)
            if pid is None:
                continue
            struck = time.monotonic()
            fault.strike(pid)
            victims.stand_up()
            report.struck(fault, stood_again_s=time.monotonic() - struck)
    report.outcomes = streams.outcomes
    report.seconds = time.monotonic() - began
    return report
