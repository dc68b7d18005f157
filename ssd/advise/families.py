"""From a configuration to the number of parameters, one entry per architecture family.

A decoder is tables, layers and a head; families differ in what a layer has beside its matrices:
biases, norms, routers. The counts equal those of the models that transformers builds, which
`tests/advise/test_families.py` checks. A family that is not listed is refused: a guess would look
like an answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ssd.advise import layer_parts as parts
from ssd.advise.model_config import ModelConfig
from ssd.advise.model_shape import ModelShape
from ssd.core.cost_model import Experts
from ssd.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Family:
    """How to count a family; each function gives one layer's parameters."""

    attention: Callable[[ModelConfig], parts.Attention]
    mlp: Callable[[ModelConfig, int], int]
    """Of a layer, its experts aside, by the layer's index."""
    norms: Callable[[ModelConfig], int]
    final_norm: Callable[[ModelConfig], int]
    experts: Callable[[ModelConfig, int], int] = field(default=lambda config, layer: 0)
    """Parameters of all experts of a layer."""
    positions: Callable[[ModelConfig], int] = field(default=lambda config: 0)
    """A table of learned positions."""
    extra: Callable[[ModelConfig], int] = field(default=lambda config: 0)
    is_tied: bool = False
    """Unless the configuration says otherwise."""
    has_head_bias: bool = False
    sets_tie: bool = True
    """Whether `tie_word_embeddings` in the configuration decides."""


def shape_of(name: str, values: Mapping[str, Any]) -> ModelShape:
    """Count the model that a config.json describes.

    Raises:
        ConfigError: its family is not known here, or a size is missing.
    """
    text = values.get("text_config")
    if isinstance(text, Mapping) and "model_type" in text:
        values = {**values, **text}
    family_name = str(values.get("model_type", "none"))
    family = FAMILIES.get(family_name)
    if family is None:
        known = ", ".join(sorted(FAMILIES))
        raise ConfigError(
            f"the parameters of {name} cannot be counted: its model_type is {family_name}, and"
            f" those known are {known}"
        )
    return _count(ModelConfig(name, values), family_name, family)


def _count(config: ModelConfig, family_name: str, family: Family) -> ModelShape:
    hidden, layers, vocab = config.size("hidden"), config.size("layers"), config.size("vocab_size")
    attention = family.attention(config)
    expert = sum(family.experts(config, layer) for layer in range(layers))
    body = sum(
        attention.parameters + family.mlp(config, layer) + family.norms(config)
        for layer in range(layers)
    )
    is_tied = family.is_tied
    if family.sets_tie:
        is_tied = config.flag("tie_word_embeddings", family.is_tied)
    table, positions = vocab * hidden, family.positions(config)
    head = 0 if is_tied else vocab * hidden
    head += vocab if family.has_head_bias else 0
    total = table + positions + body + expert + family.final_norm(config) + head
    num_experts = config.size("num_experts", 0) if expert else 0
    return ModelShape(
        family=family_name,
        num_parameters=total + family.extra(config),
        num_looked_up=positions + (0 if is_tied else table),
        num_layers=layers,
        kv_values=layers * attention.kv_values,
        vocab_size=vocab,
        context_len=config.size("context", 0) or None,
        dtype=_dtype(config.values),
        num_expert=expert,
        experts=Experts(num_experts, _experts_per_row(config)) if num_experts else None,
    )


def _experts_per_row(config: ModelConfig) -> int:
    return min(config.size("num_experts_per_tok"), config.size("num_experts"))


def _dtype(values: Mapping[str, Any]) -> str | None:
    stated = values.get("dtype", values.get("torch_dtype"))
    return stated if isinstance(stated, str) else None


def _norms(count: int, *, has_bias: bool) -> dict[str, Any]:
    """So many norms in a layer, and one of the same kind at the end."""
    return {
        "norms": parts.norms(count, has_bias=has_bias),
        "final_norm": parts.norms(1, has_bias=has_bias),
    }


_RMS = _norms(2, has_bias=False)
_LAYER_NORMS = _norms(2, has_bias=True)
_LLAMA = Family(parts.plain_attention, parts.gated_maybe_biased, **_RMS)
_GPT2: dict[str, Any] = {"positions": parts.learned_positions(), "is_tied": True}

FAMILIES: Mapping[str, Family] = {
    "llama": _LLAMA,
    "mistral": Family(parts.attention, parts.gated, **_RMS),
    "granite": Family(parts.plain_attention, parts.gated_maybe_biased, **_RMS),
    "smollm3": Family(parts.plain_attention, parts.gated_maybe_biased, **_RMS, is_tied=True),
    "qwen2": Family(lambda config: parts.attention(config, qkv_bias=True), parts.gated, **_RMS),
    "qwen3": Family(parts.with_qk_norms, parts.gated, **_RMS),
    "olmo2": Family(parts.with_wide_qk_norms, parts.gated, **_RMS),
    "phi3": Family(parts.attention, parts.gated, **_RMS),
    "gemma": Family(parts.plain_attention, parts.gated, **_RMS, is_tied=True),
    "gemma2": Family(
        parts.plain_attention,
        parts.gated,
        **_norms(4, has_bias=False),
        is_tied=True,
    ),
    "gemma3_text": Family(
        parts.with_qk_norms,
        parts.gated,
        **_norms(4, has_bias=False),
        is_tied=True,
    ),
    "cohere": Family(
        parts.cohere_attention,
        parts.gated,
        **_norms(1, has_bias=False),
        is_tied=True,
    ),
    "phi": Family(
        lambda config: parts.attention(config, qkv_bias=True, out_bias=True),
        parts.biased_mlp,
        **_norms(1, has_bias=True),
        has_head_bias=True,
    ),
    "starcoder2": Family(
        lambda config: parts.attention(
            config, qkv_bias=config.flag("use_bias", True), out_bias=config.flag("use_bias", True)
        ),
        lambda config, layer: parts.two_matrices(config, bias=config.flag("use_bias", True)),
        **_LAYER_NORMS,
        is_tied=True,
    ),
    "stablelm": Family(
        parts.stablelm_attention,
        parts.gated,
        norms=parts.stablelm_norms,
        final_norm=parts.norms(1, has_bias=True),
    ),
    "gpt2": Family(parts.biased_attention, parts.named_mlp("n_inner"), **_LAYER_NORMS, **_GPT2),
    "gpt_bigcode": Family(
        lambda config: parts.attention(
            config,
            qkv_bias=True,
            out_bias=True,
            kv_heads=1 if config.flag("multi_query", True) else config.size("heads"),
        ),
        parts.named_mlp("n_inner"),
        **_LAYER_NORMS,
        **_GPT2,
    ),
    "gpt_neox": Family(
        lambda config: parts.attention(
            config,
            qkv_bias=config.flag("attention_bias", True),
            out_bias=config.flag("attention_bias", True),
            kv_heads=config.size("heads"),
        ),
        parts.biased_mlp,
        **_LAYER_NORMS,
    ),
    "gptj": Family(
        lambda config: parts.attention(config, kv_heads=config.size("heads")),
        parts.named_mlp("n_inner"),
        **_norms(1, has_bias=True),
        has_head_bias=True,
    ),
    "gpt_neo": Family(
        lambda config: parts.attention(config, out_bias=True, kv_heads=config.size("heads")),
        parts.biased_mlp,
        **_LAYER_NORMS,
        positions=parts.learned_positions(),
        is_tied=True,
    ),
    "opt": Family(
        parts.biased_attention,
        parts.biased_mlp,
        **_LAYER_NORMS,
        positions=parts.learned_positions(2),
        is_tied=True,
    ),
    "falcon": Family(
        parts.falcon_attention,
        lambda config, layer: parts.two_matrices(
            config,
            bias=config.flag("bias"),
            inner=config.size("ffn_hidden_size", 4 * config.size("hidden")),
        ),
        norms=parts.falcon_norms,
        final_norm=parts.norms(1, has_bias=True),
        is_tied=True,
    ),
    "bloom": Family(
        parts.biased_attention,
        lambda config, layer: parts.two_matrices(config, inner=4 * config.size("hidden")),
        **_LAYER_NORMS,
        extra=parts.norms(1, has_bias=True),
        is_tied=True,
    ),
    "mpt": Family(
        lambda config: parts.attention(config, kv_heads=config.size("heads")),
        lambda config, layer: parts.two_matrices(
            config, bias=False, inner=config.size("expansion_ratio", 4) * config.size("hidden")
        ),
        **_RMS,
        is_tied=True,
        sets_tie=False,
    ),
    "mixtral": Family(parts.attention, parts.router, **_RMS, experts=parts.expert_mlps),
    "qwen2_moe": Family(
        lambda config: parts.attention(config, qkv_bias=config.flag("qkv_bias", True)),
        parts.qwen2_moe_mlp,
        **_RMS,
        experts=parts.qwen_experts,
    ),
    "qwen3_moe": Family(
        parts.with_qk_norms, parts.qwen3_moe_mlp, **_RMS, experts=parts.qwen_experts
    ),
    "gpt_oss": Family(
        parts.gpt_oss_attention, parts.biased_router, **_RMS, experts=parts.gpt_oss_experts
    ),
    "phimoe": Family(
        parts.plain_attention, parts.router, **_LAYER_NORMS, experts=parts.expert_mlps
    ),
    "deepseek_v3": Family(
        parts.latent_attention, parts.deepseek_mlp, **_RMS, experts=parts.deepseek_experts
    ),
}
