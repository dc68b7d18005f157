"""Attention of architectures that `transformers` keeps from its attention interface.

Such a module computes queries, keys and values, attends by itself, and projects. An adapter
replaces the part that attends; everything with weights stays the module's own:

- where a module attends in a method of its own (`_attn`), that method is replaced;
- elsewhere the module's `forward` is, with the module's own projections and rotary embedding.

Position biases (ALiBi) come out of the model's own function, so they are rounded as the model
rounds them.
"""

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ssd.engine.attention_rule import AttentionRule, PositionBias

Attend = Callable[[Tensor, Tensor, Tensor, AttentionRule], Tensor]
"""[1, heads, rows, dim] queries, keys and values give [1, rows, heads, value_dim]."""

Adapter = Callable[[Any, Attend], None]
"""Make one attention module attend through us."""


def adapt_attention(model: nn.Module, attend: Attend) -> int:
    """Replace the attention of every module we have an adapter for; how many there were."""
    adapted = [(module, _adapter_of(module)) for module in model.modules()]
    found = [(module, adapter) for module, adapter in adapted if adapter is not None]
    for module, adapter in found:
        adapter(module, attend)
    return len(found)


def _adapter_of(module: nn.Module) -> Adapter | None:
    # By file and class: some classes are named like those of another architecture.
    file = type(module).__module__.rpartition(".")[2]
    return _ADAPTERS.get(f"{file}.{type(module).__name__}")


def inputs_of_adapted(model: nn.Module) -> Mapping[str, Tensor]:
    """What the model must be called with besides tokens and positions."""
    if type(model).__name__ == "MptForCausalLM":
        # It converts its mask before our adapter can ignore it; one of four dimensions is taken
        # as it is.
        return {"attention_mask": torch.zeros(1, 1, 1, 1)}
    return {}


def _falcon(module: Any, attend: Attend) -> None:
    library = _library_of(module)
    num_shared = 1
    if module.new_decoder_architecture:  # keys come repeated for every head that shares them
        num_shared = module.num_heads // module.num_kv_heads
    plain = AttentionRule(scale=module.inv_norm_factor)
    biased = AttentionRule(
        scale=module.inv_norm_factor,
        position_bias=_falcon_bias(library.build_alibi_tensor, module),
    )

    def forward(
        hidden_states: Tensor, alibi: Tensor | None, position_embeddings: Any = None, **_: Any
    ) -> tuple[Tensor, None]:
        query, key, value = module._split_heads(module.query_key_value(hidden_states))
        query = query.transpose(1, 2)
        key, value = key[:, :, ::num_shared].transpose(1, 2), value[:, :, ::num_shared]
        if alibi is None:
            query, key = library.apply_rotary_pos_emb(query, key, *position_embeddings)
        mixed = attend(query, key, value.transpose(1, 2), plain if alibi is None else biased)
        return module.dense(mixed.flatten(2)), None

    module.forward = forward


def _falcon_bias(build: Callable[..., Tensor], module: Any) -> PositionBias:
    bias = _position_bias(build, module.num_heads, module.query_key_value.weight.dtype)
    divisor = math.sqrt(module.head_dim)
    return lambda positions: bias(positions) / divisor


def _bloom(module: Any, attend: Attend) -> None:
    build = _library_of(module).build_alibi_tensor
    weight = module.query_key_value.weight
    rule = AttentionRule(
        scale=module.inv_norm_factor,
        position_bias=_position_bias(build, module.num_heads, weight.dtype),
    )

    def forward(hidden_states: Tensor, residual: Tensor, **_: Any) -> tuple[Tensor, None]:
        query, key, value = module._reshape(module.query_key_value(hidden_states))
        return residual + module.dense(attend(query, key, value, rule).flatten(2)), None

    module.forward = forward


def _position_bias(
    build: Callable[..., Tensor], num_heads: int, dtype: torch.dtype
) -> PositionBias:
    """The library's table for a text of ones, read at the positions asked for."""

    def bias(positions: Tensor) -> Tensor:
        text = torch.ones(1, int(positions.max()) + 1, dtype=torch.long, device=positions.device)
        table: Tensor = build(text, num_heads, dtype)[:, 0]
        return table[:, positions]

    return bias


def _mpt(module: Any, attend: Attend) -> None:
    build = _library_of(module).build_mpt_alibi_tensor

    def bias(positions: Tensor) -> Tensor:
        table: Tensor = build(module.n_heads, int(positions.max()) + 1, device=positions.device)
        return table[:, 0, positions]

    rule = AttentionRule(scale=module.softmax_scale, position_bias=bias)

    def forward(hidden_states: Tensor, position_bias: Tensor, **_: Any) -> tuple[Tensor, None]:
        mixed = module.Wqkv(hidden_states)
        if module.clip_qkv:
            mixed = mixed.clamp(min=-module.clip_qkv, max=module.clip_qkv)
        query, key, value = (
            part.unflatten(2, (module.n_heads, -1)).transpose(1, 2) for part in mixed.chunk(3, 2)
        )
        return module.out_proj(attend(query, key, value, rule).flatten(2)), None

    module.forward = forward


def _xglm(module: Any, attend: Attend) -> None:
    rule = AttentionRule(scale=module.scaling)

    def forward(hidden_states: Tensor, **_: Any) -> tuple[Tensor, None]:
        query, key, value = (
            projection(hidden_states).unflatten(2, (module.num_heads, -1)).transpose(1, 2)
            for projection in (module.q_proj, module.k_proj, module.v_proj)
        )
        return module.out_proj(attend(query, key, value, rule).flatten(2)), None

    module.forward = forward


def _gpt_neo(module: Any, attend: Attend) -> None:
    window = module.config.window_size if module.attention_type == "local" else None
    rule = AttentionRule(scale=1.0, window=window)

    def attend_rows(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, None]:
        return attend(query, key, value, rule).transpose(1, 2), None

    module._attn = attend_rows


def _gpt_neox_japanese(module: Any, attend: Attend) -> None:
    rule = AttentionRule(scale=1.0 / module.norm_factor)

    def attend_rows(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, None]:
        return attend(query, key, value, rule).transpose(1, 2), None

    module._attn = attend_rows


def _openai_gpt(module: Any, attend: Attend) -> None:
    rule = AttentionRule(scale=None if module.scale else 1.0)

    def attend_rows(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> list[Tensor]:
        return [attend(query, key.transpose(2, 3), value, rule).transpose(1, 2)]

    module._attn = attend_rows


def _library_of(module: nn.Module) -> Any:
    """The file of `transformers` that the module comes from."""
    return sys.modules[type(module).__module__]


_ADAPTERS: Mapping[str, Adapter] = {
    "modeling_falcon.FalconAttention": _falcon,
    "modeling_bloom.BloomAttention": _bloom,
    "modeling_mpt.MptAttention": _mpt,
    "modeling_xglm.XGLMAttention": _xglm,
    "modeling_gpt_neo.GPTNeoSelfAttention": _gpt_neo,
    "modeling_gpt_neox_japanese.GPTNeoXJapaneseAttention": _gpt_neox_japanese,
    "modeling_openai.Attention": _openai_gpt,
}
