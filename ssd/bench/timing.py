"""How long things take, on a machine whose speed drifts.

What is compared runs in turns, so that both sides meet the same machine, and a figure is the median
of the turns.
"""

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch

Work = Callable[[], object]


def seconds_in_turns(works: Sequence[Work], *, turns: int) -> list[float]:
    """The median seconds of each, after a turn that does not count."""
    spent: list[list[float]] = [[] for _ in works]
    for turn in range(turns + 1):
        for index, work in enumerate(works):
            start = time.perf_counter()
            work()
            if turn > 0:
                spent[index].append(time.perf_counter() - start)
    return [median(each) for each in spent]


def use_threads(num_threads: int) -> None:
    """How many CPU threads a forward has from now on."""
    torch.set_num_threads(num_threads)
