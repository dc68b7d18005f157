"""First forwards: they load kernels and caches, and tell the cost model what rows cost."""

import time

from torch import Tensor

from ssd.core.cost_model import CostModel, ForwardSize
from ssd.core.ids import KvId, SlotSet
from ssd.core.rows import RowGroup
from ssd.engine.loading import LoadedModel

_KV_ID = KvId("warm-up")
_SIZES = (1, 2, 4, 8, 12, 16, 24, 32)
_LONG_TEXT_SIZES = (1, 8)
_LONG_TEXT_LEN = 1024
_PREFILL_S = 0.5  # what a long text may take to run; a shorter one will do
_CHUNK = 128
_REPEATS = 3

Measured = tuple[ForwardSize, float]
"""(size, seconds)"""


def measured_cost(model: LoadedModel) -> CostModel:
    """The cost model of a model whose forwards were measured on the calling thread."""
    return CostModel(measure_forwards(model), experts=model.experts)


def measure_forwards(model: LoadedModel) -> list[Measured]:
    """Seconds of forwards of several sizes above no text and above a long one, best of a few."""
    sizes = [rows for rows in _SIZES if rows <= model.context_len]
    try:
        model.runner.forward([_chain(model, sizes[-1], text_len=0)])
        measured = [_fastest(model, _chain(model, rows, text_len=0)) for rows in sizes]
        text_len = _affordable_len(model, *measured[-1])
        if text_len > max(_SIZES):
            for start in range(0, text_len, _CHUNK):
                rows = min(_CHUNK, text_len - start)
                model.runner.forward([_chain(model, rows, text_len=start)])
            long = [_chain(model, rows, text_len=text_len) for rows in _LONG_TEXT_SIZES]
            measured += [_fastest(model, group) for group in long]
        return measured
    finally:
        model.runner.release(_KV_ID)


def _affordable_len(model: LoadedModel, size: ForwardSize, seconds: float) -> int:
    affordable = int(_PREFILL_S / max(seconds, 1e-6) * size.rows)
    return min(_LONG_TEXT_LEN, affordable, model.context_len - max(_LONG_TEXT_SIZES))


def _fastest(model: LoadedModel, group: RowGroup) -> Measured:
    return ForwardSize.of([group]), min(_seconds(model, group) for _ in range(_REPEATS))


def _seconds(model: LoadedModel, group: RowGroup) -> float:
    start = time.perf_counter()
    logits: Tensor = model.runner.forward([group])
    logits.sum().item()  # waits for the device
    return time.perf_counter() - start


def _chain(model: LoadedModel, rows: int, *, text_len: int) -> RowGroup:
    """Rows above a text; different tokens, because equal ones would share a mixture's experts."""
    slots = tuple(range(text_len, text_len + rows))
    return RowGroup(
        kv_id=_KV_ID,
        token_ids=tuple((7 + 31 * row) % model.vocab_size for row in range(rows)),
        positions=slots,
        past_len=text_len,
        slots=slots,
        visible=tuple(SlotSet((2 << row) - 1) for row in range(rows)),
        wanted=tuple(range(rows)),
    )
