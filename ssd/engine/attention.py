"""Attention of one session's rows over its own slots."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

PositionBias = Callable[[Tensor], Tensor]
"""What a score gains by where its key stands (ALiBi): [slots] positions give [heads, slots]."""


@dataclass(frozen=True, slots=True)
class AttentionRule:
    """What a model's layer asks of attention, besides queries, keys, values and the tree.

    `window` counts positions, the row's own included. `sinks`, one logit per head, take part in the
    softmax and carry no value. `position_bias` is added to the scaled scores.
    """

    scale: float | None = None
    window: int | None = None
    softcap: float | None = None
    sinks: Tensor | None = None  # [heads]
    position_bias: PositionBias | None = None

    @property
    def is_plain(self) -> bool:
        return self.softcap is None and self.sinks is None


def attend(
    query: Tensor, keys: Tensor, values: Tensor, *, mask: Tensor, rule: AttentionRule
) -> Tensor:
    """[heads, rows, dim] over [kv_heads, slots, dim] gives [heads, rows, value_dim].

    The mask is additive, [heads / kv_heads * rows, slots], or one such for each key head: query
    heads that share a key head are folded into its rows, which spares copies of keys and values.
    """
    num_heads, num_rows, dim = query.shape
    folded = query.reshape(keys.shape[0], -1, dim)
    if rule.is_plain:
        mixed = functional.scaled_dot_product_attention(
            folded[None], keys[None], values[None], attn_mask=mask, scale=rule.scale
        )
    else:
        mixed = _attend_by_hand(folded, keys, values, mask=mask, rule=rule)
    return mixed.reshape(num_heads, num_rows, values.shape[2])


def _attend_by_hand(
    query: Tensor, keys: Tensor, values: Tensor, *, mask: Tensor, rule: AttentionRule
) -> Tensor:
    scale = 1 / math.sqrt(query.shape[2]) if rule.scale is None else rule.scale
    scores = torch.matmul(query, keys.transpose(1, 2)) * scale  # [kv_heads, folded rows, slots]
    if rule.softcap is not None:
        scores = torch.tanh(scores / rule.softcap) * rule.softcap
    scores = scores + mask
    if rule.sinks is not None:
        scores = torch.cat([scores, _sink_column(rule.sinks, scores)], dim=-1)
    precise = torch.promote_types(scores.dtype, torch.float32)
    weights = torch.softmax(scores, dim=-1, dtype=precise)[..., : keys.shape[1]]
    return torch.matmul(weights.to(values.dtype), values)


def _sink_column(sinks: Tensor, scores: Tensor) -> Tensor:
    num_kv_heads, num_folded, _ = scores.shape
    num_rows = num_folded * num_kv_heads // sinks.shape[0]
    per_row = sinks.to(scores.dtype)[:, None].expand(-1, num_rows)
    return per_row.reshape(num_kv_heads, num_folded, 1)
