"""The cuts that turn logits into the logits of the law that is sampled.

Order and definitions are vLLM's. All probabilities are those of softmax(logits / temperature):

1. `min_p` drops tokens less likely than `min_p` times the likeliest.
2. `top_k` keeps exactly the k largest of what is left.
3. `top_p` keeps the smallest set of likeliest tokens whose share of what is left reaches `top_p`.

Dropped logits become -inf, the others are not touched: the temperature is applied later. Where
equal logits straddle the border of `top_k` or `top_p` the lowest ids stay. Greedy rows are never
cut: the largest logit survives every cut. A row with NaN keeps its NaN.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ssd.core.sampling_params import SamplingParams
from ssd.sampling.row_head import kept_ids

_MIN_TEMPERATURE = 1e-6
"""Below it a division could overflow; down here a draw is as good as greedy anyway."""

_HEAD_LEN = 256
"""A nucleus is nearly always shorter; finding so many costs a tenth of sorting the vocabulary."""

_LONG_ROW = 4096
"""From here on most of a row's time goes into values that no cut keeps."""

RowsParams = Sequence[SamplingParams]


def process_logits(logits: Tensor, params: RowsParams) -> Tensor:
    """Cut every row of `[num_rows, vocab]` by its own parameters; the argument is left alone.

    Returns the argument itself when no row asks for a cut.

    Raises:
        ValueError: there are not as many params as rows.
    """
    if logits.shape[0] != len(params):
        raise ValueError(f"{logits.shape[0]} rows of logits, but {len(params)} params")
    vocab_size = logits.shape[1]
    cut = [row for row, each in enumerate(params) if _is_cut(each, vocab_size)]
    if not cut:
        return logits
    if logits.device.type == "cpu" and vocab_size >= _LONG_ROW:
        return _cut_long_rows(logits, params, cut)
    return _cut_rows(logits, params)


def _cut_long_rows(logits: Tensor, params: RowsParams, cut: Sequence[int]) -> Tensor:
    """Row by row, each by its head where that decides."""
    table, result = logits.detach().numpy(), logits.clone()
    for row in cut:
        divisor = max(params[row].temperature, _MIN_TEMPERATURE)
        ids = kept_ids(table[row], params[row], temperature=divisor)
        if ids is None:
            result[row] = _cut_rows(logits[row : row + 1], params[row : row + 1])[0]
        else:
            kept = result.numpy()[row]
            kept.fill(-math.inf)
            kept[ids] = table[row, ids]
    return result


def _is_cut(params: SamplingParams, vocab_size: int) -> bool:
    is_asked = params.min_p > 0.0 or 0 < params.top_k < vocab_size or params.top_p < 1.0
    return is_asked and not params.is_greedy


def _cut_rows(logits: Tensor, params: RowsParams) -> Tensor:
    vocab_size = logits.shape[1]
    logits = _cut(logits, params, [row.min_p > 0.0 for row in params], _keep_likely)
    logits = _cut(logits, params, [0 < row.top_k < vocab_size for row in params], _keep_top_k)
    return _cut(logits, params, [row.top_p < 1.0 for row in params], _keep_nucleus)


def divide_by_temperature(logits: Tensor, params: RowsParams) -> Tensor:
    """Logits in units of their row's temperature; greedy rows stay as they are.

    Returns the argument itself when every divisor is 1.
    """
    divisors = [1.0 if row.is_greedy else max(row.temperature, _MIN_TEMPERATURE) for row in params]
    if all(divisor == 1.0 for divisor in divisors):
        return logits
    # A column even for one common divisor: devices may turn a scalar into a reciprocal product,
    # and a row must not be rounded differently for the company it keeps.
    return logits / torch.tensor(divisors, dtype=logits.dtype, device=logits.device).unsqueeze(1)


def _cut(
    logits: Tensor,
    params: RowsParams,
    wanted: Sequence[bool],
    cut: Callable[[Tensor, RowsParams], Tensor],
) -> Tensor:
    rows = [row for row, is_wanted in enumerate(wanted) if is_wanted and not params[row].is_greedy]
    if not rows:
        return logits
    if len(rows) == len(params):
        return cut(logits, params)
    index = torch.tensor(rows, device=logits.device)
    return logits.index_copy(0, index, cut(logits[index], [params[row] for row in rows]))


def _keep_likely(logits: Tensor, params: RowsParams) -> Tensor:
    scaled = divide_by_temperature(logits, params)
    log_ratios = torch.tensor(
        [math.log(row.min_p) for row in params], dtype=logits.dtype, device=logits.device
    )
    cutoff = scaled.amax(dim=-1) + log_ratios
    return logits.masked_fill(scaled < cutoff.unsqueeze(1), -math.inf)


def _keep_top_k(logits: Tensor, params: RowsParams) -> Tensor:
    return _keep_largest(logits, torch.tensor([row.top_k for row in params], device=logits.device))


def _keep_nucleus(logits: Tensor, params: RowsParams) -> Tensor:
    probabilities = divide_by_temperature(logits, params).softmax(dim=-1)
    top_ps = torch.tensor([row.top_p for row in params], dtype=torch.float64, device=logits.device)
    return _keep_largest(logits, _nucleus_sizes(probabilities, top_ps.unsqueeze(1), _HEAD_LEN))


def _nucleus_sizes(probabilities: Tensor, top_ps: Tensor, head_len: int) -> Tensor:
    """How many of the likeliest tokens it takes to reach `top_ps`, at least one: `[num_rows]`."""
    head_len = min(head_len, probabilities.shape[1])
    head = probabilities.topk(head_len, dim=-1).values.double()
    reached = head.cumsum(dim=-1)
    sizes = (reached - head < top_ps).sum(dim=-1).clamp_(min=1)
    too_flat = (reached[:, -1:] < top_ps).squeeze(1)
    if head_len < probabilities.shape[1] and bool(too_flat.any()):
        sizes[too_flat] = _nucleus_sizes(
            probabilities[too_flat], top_ps[too_flat], probabilities.shape[1]
        )
    return sizes


def _keep_largest(logits: Tensor, counts: Tensor) -> Tensor:
    """Keep exactly `counts[row]` logits of every row; among equal ones the lowest ids."""
    head = logits.topk(int(counts.max()), dim=-1).values
    smallest_kept = head.gather(1, counts.unsqueeze(1) - 1)
    dropped = logits < smallest_kept
    surplus = (logits >= smallest_kept).sum(dim=-1) - counts
    if bool((surplus > 0).any()):
        tied = logits == smallest_kept
        room = tied.sum(dim=-1) - surplus
        dropped |= tied & (tied.cumsum(dim=-1) > room.unsqueeze(1))
    return logits.masked_fill(dropped, -math.inf)
