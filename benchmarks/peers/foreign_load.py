"""How much of the processor others took while an answer was made.

A machine that does other things slows an engine with two threads more than one with one, because
its threads wait for each other. So every answer carries the share of the cores' time that was spent
by processes that are not ours, and those that were disturbed are asked for again.
"""

import os
import time
import uuid
from collections.abc import Callable

import psutil

_MARK = "BENCH_PEERS_RUN"  # not SSD_*, which are settings


class ForeignLoad:
    """Knows the processes of this run by a mark in their environment; make it before they start."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        os.environ[_MARK] = self._mark
        self._ours: list[psutil.Process] = []

    def find_ours(self) -> None:
        """Look for the processes of this run, once all of them stand."""
        self._ours = [each for each in psutil.process_iter() if self._is_ours(each)]

    def share_during(self, work: Callable[[], None]) -> float:
        """Do the work; of the time of all cores meanwhile, what others spent, 0 to 1."""
        began, busy, ours = time.perf_counter(), _busy_s(), self._our_s()
        work()
        elapsed = (time.perf_counter() - began) * len(os.sched_getaffinity(0))
        foreign = (_busy_s() - busy) - (self._our_s() - ours)
        return min(max(foreign / elapsed, 0.0), 1.0)

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            marked = process.environ().get(_MARK) == self._mark
        except psutil.Error:
            return False
        return marked or process.pid == os.getpid()

    def _our_s(self) -> float:
        spent = 0.0
        for process in self._ours:
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue  # it ended
            spent += times.user + times.system
        return spent


def _busy_s() -> float:
    """Seconds that all cores together have worked since the machine started."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)
