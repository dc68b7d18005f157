"""Cuts of a long row on a CPU, decided among its few largest values.

Each cut keeps a prefix of the row sorted by value, so nothing below its longest prefix matters. A
row of 49k values is read four times and sorted never:

    row      [ block | block | block | ... ]     largest value of each block
    floor    the count-th largest of those        so at least `count` values reach it
    head     the values that reach it, sorted     a few hundred

Definitions are those of `processors`; what a head cannot decide is left to it.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ssd.core.sampling_params import SamplingParams

_BLOCK_LEN = 64
_NUCLEUS_LEN = 256
"""Longer nuclei are rare, and left to the sorting of the whole row."""

Row = NDArray[np.floating]
Ids = NDArray[np.intp]


def kept_ids(row: Row, params: SamplingParams, *, temperature: float) -> Ids | None:
    """The ids that survive all cuts, or None where the row's head does not tell."""
    top_k = params.top_k if params.top_k < len(row) else 0
    count = top_k or _NUCLEUS_LEN
    if count > len(row) // _BLOCK_LEN:
        return None
    head = _head(row, count)
    if head is None:
        return None
    scaled = row[head] / row.dtype.type(temperature)
    if params.min_p > 0.0:
        scaled = scaled[scaled >= scaled[0] + row.dtype.type(math.log(params.min_p))]
    is_whole = top_k > 0 or len(scaled) < len(head)  # nothing beyond survives as well
    if top_k > 0:
        scaled = scaled[:top_k]
    if params.top_p < 1.0:
        return _nucleus(row, head, scaled, params.top_p, temperature, is_whole=is_whole)
    return head[: len(scaled)] if is_whole else None


def _head(row: Row, count: int) -> Ids | None:
    """At least the ids of the `count` largest values, best first; equal ones by id."""
    whole = len(row) // _BLOCK_LEN * _BLOCK_LEN
    largest = row[:whole].reshape(-1, _BLOCK_LEN).max(axis=1)
    floor = np.partition(largest, -count)[-count]
    if not (math.isfinite(floor) and math.isfinite(row.max())):
        return None
    ids = np.flatnonzero(row >= floor)
    return ids[np.argsort(-row[ids], kind="stable")]


def _nucleus(
    row: Row, head: Ids, scaled: Row, top_p: float, temperature: float, *, is_whole: bool
) -> Ids | None:
    weights = np.exp((scaled - scaled[0]).astype(np.float64))
    total = weights.sum() if is_whole else _total(row, temperature, float(scaled[0]))
    reached = weights.cumsum()
    size = max(int((reached - weights < top_p * total).sum()), 1)
    if size == len(scaled) and not is_whole:
        return None
    return head[:size]


def _total(row: Row, temperature: float, largest: float) -> float:
    scaled = row / row.dtype.type(temperature) - row.dtype.type(largest)
    return float(np.exp(scaled).sum(dtype=np.float64))
