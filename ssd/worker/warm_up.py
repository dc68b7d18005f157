"""First forwards: they load kernels and caches, and tell the cost model what a row costs."""

import time

from torch import Tensor

from ssd.core.ids import KvId, SlotSet
from ssd.core.rows import RowGroup, Runner

_KV_ID = KvId("warm-up")
_SIZES = (1, 2, 4, 8, 16)
_REPEATS = 3


def measure_forwards(runner: Runner[Tensor], *, context_len: int) -> list[tuple[int, float]]:
    """(rows, seconds) of forwards of several sizes, the fastest of a few each."""
    sizes = [rows for rows in _SIZES if rows <= context_len]
    try:
        runner.forward([_chain(max(sizes))])
        return [(rows, min(_seconds(runner, rows) for _ in range(_REPEATS))) for rows in sizes]
    finally:
        runner.release(_KV_ID)


def _seconds(runner: Runner[Tensor], rows: int) -> float:
    group = _chain(rows)
    start = time.perf_counter()
    runner.forward([group]).sum().item()  # waits for the device
    return time.perf_counter() - start


def _chain(rows: int) -> RowGroup:
    return RowGroup(
        kv_id=_KV_ID,
        token_ids=(0,) * rows,
        positions=tuple(range(rows)),
        past_len=0,
        slots=tuple(range(rows)),
        visible=tuple(SlotSet((2 << row) - 1) for row in range(rows)),
        wanted=tuple(range(rows)),
    )
