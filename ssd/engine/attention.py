"""Attention of one session's rows over its own slots."""

from torch import Tensor
from torch.nn import functional

from ssd.engine.attention_parts import attend_by_hand, attend_in_two_parts
from ssd.engine.attention_rule import AttentionRule


def attend(
    query: Tensor, keys: Tensor, values: Tensor, *, mask: Tensor | None, rule: AttentionRule
) -> Tensor:
    """[heads, rows, dim] over [kv_heads, slots, dim] gives [heads, rows, value_dim].

    The mask is additive, [heads / kv_heads * rows, slots], or one such for each key head: query
    heads that share a key head are folded into its rows, which spares copies of keys and values. A
    narrower mask is for the last slots, and all rows see those before them; None hides nothing.
    """
    num_heads, num_rows, dim = query.shape
    folded = query.reshape(keys.shape[0], -1, dim)
    is_dense = mask is None or mask.shape[-1] == keys.shape[1]
    if rule.is_plain and is_dense:
        mixed = functional.scaled_dot_product_attention(
            folded[None], keys[None], values[None], attn_mask=mask, scale=rule.scale
        )
    elif mask is None or not rule.is_plain or query.device.type == "cpu":
        mixed = attend_by_hand(folded, keys, values, mask=mask, rule=rule)
    else:
        mixed = attend_in_two_parts(folded, keys, values, mask=mask, rule=rule)
    return mixed.reshape(num_heads, num_rows, values.shape[2])
