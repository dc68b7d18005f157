"""Attention over a long text and a small tree above it.

All rows see the whole text, so the mask need only be as wide as the tree. On a CPU the scores of
both stand in one matrix, and the mask is added to its last columns. On a GPU the text goes through
a kernel that takes no mask, and two softmaxes are merged by their sums: with L = log Σ exp(score),

    mixed = mixed_text * s + mixed_tree * (1 - s)        s = sigmoid(L_text - L_tree)

Sinks are merged likewise: slots of known L that carry no value.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ssd.engine.attention_rule import AttentionRule
from ssd.engine.projection import product

_FLASH_ON_CUDA = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention", None)


@dataclass(frozen=True, slots=True)
class AttentionPart:
    """Attention over some slots: [kv_heads, folded rows, value_dim], and L, [.., .., 1]."""

    mixed: Tensor
    log_sum: Tensor

    def merged(self, other: "AttentionPart") -> Tensor:
        """Attention over the slots of both."""
        share = torch.sigmoid(self.log_sum - other.log_sum).to(self.mixed.dtype)
        return torch.lerp(other.mixed, self.mixed, share)


def attend_by_hand(
    query: Tensor, keys: Tensor, values: Tensor, *, mask: Tensor | None, rule: AttentionRule
) -> Tensor:
    """[kv_heads, folded rows, dim] under any rule; softmax in float32 or more.

    A mask narrower than the slots is for the last of them.
    """
    scores = _scores(query, keys, mask=mask, rule=rule)
    mixed = _mixed(scores, values)
    return mixed if rule.sinks is None else _less_sinks(mixed, scores, rule.sinks)


def attend_in_two_parts(
    query: Tensor, keys: Tensor, values: Tensor, *, mask: Tensor, rule: AttentionRule
) -> Tensor:
    """The same for a rule without sinks and soft caps; the mask is for the last slots."""
    text_len = keys.shape[1] - mask.shape[-1]
    text = _attend_to_text(query, keys[:, :text_len], values[:, :text_len], rule)
    scores = _scores(query, keys[:, text_len:], mask=mask, rule=rule)
    return text.merged(_part(scores, values[:, text_len:]))


def _scores(query: Tensor, keys: Tensor, *, mask: Tensor | None, rule: AttentionRule) -> Tensor:
    """[kv_heads, folded rows, slots] in float32 or more."""
    scale = 1 / math.sqrt(query.shape[2]) if rule.scale is None else rule.scale
    scores = product(query * scale, keys)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if rule.softcap is not None:
        scores = torch.tanh(scores / rule.softcap) * rule.softcap
    if mask is not None:
        scores[..., scores.shape[-1] - mask.shape[-1] :] += mask
    return scores


def _mixed(scores: Tensor, values: Tensor) -> Tensor:
    weights = torch.softmax(scores, dim=-1).to(values.dtype)
    if values.dtype is torch.bfloat16:  # a tenth and more faster than oneDNN's plain product
        return torch.bmm(weights, values)
    return product(weights, values.transpose(1, 2))


def _part(scores: Tensor, values: Tensor) -> AttentionPart:
    return AttentionPart(_mixed(scores, values), scores.logsumexp(dim=-1, keepdim=True))


def _less_sinks(mixed: Tensor, scores: Tensor, sinks: Tensor) -> Tensor:
    """What is left once sinks, [heads], took their part of the softmax."""
    log_sum = scores.logsumexp(dim=-1, keepdim=True)
    num_rows = mixed.shape[0] * mixed.shape[1] // len(sinks)
    per_row = sinks.to(log_sum.dtype)[:, None].expand(-1, num_rows)
    share = torch.sigmoid(log_sum - per_row.reshape(log_sum.shape))
    return mixed * share.to(mixed.dtype)


def _attend_to_text(
    query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule
) -> AttentionPart:
    if _FLASH_ON_CUDA is None or not _takes_flash(query, values):
        return _part(_scores(query, keys, mask=None, rule=rule), values)
    mixed, log_sum, *_ = _FLASH_ON_CUDA(query[None], keys[None], values[None], scale=rule.scale)
    return AttentionPart(mixed[0], log_sum[0, :, : query.shape[1], None])


def _takes_flash(query: Tensor, values: Tensor) -> bool:
    """What the kernel asks for: half precision, a head of whole eights, an Ampere or newer."""
    return (
        query.device.type == "cuda"
        and query.dtype in {torch.float16, torch.bfloat16}
        and query.shape[2] == values.shape[2] <= 256
        and query.shape[2] % 8 == 0
        and torch.cuda.get_device_capability(query.device) >= (8, 0)
    )
