"""From a configuration to the number of parameters, one entry per architecture family.

A decoder is tables, layers and a head; families differ in what a layer has beside its matrices:
biases, norms, routers. The counts equal those of the models that transformers builds, which
`tests/advise/test_families.py` checks. A family that is not listed is refused: a guess would look
like an answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ssd.advise.model_shape import ModelShape
from ssd.core.cost_model import Experts
from ssd.core.errors import ConfigError

# Families name the same size differently; the first name that a configuration has is taken.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "inner": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "context": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
    "num_experts": ("num_local_experts", "num_experts", "n_routed_experts"),
}


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration by the names above, or by its own."""

    name: str
    values: Mapping[str, Any]

    def size(self, key: str, default: int | None = None) -> int:
        """Raises ConfigError when the configuration does not say."""
        for name in _NAMES.get(key, (key,)):
            value = self.values.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                return value
        if default is None:
            names = " or ".join(_NAMES.get(key, (key,)))
            raise ConfigError(f"the configuration of {self.name} does not give {names}")
        return default

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.values.get(key)
        return default if value is None else bool(value)

    @property
    def head_dim(self) -> int:
        return self.size("head_dim", self.size("hidden") // self.size("heads"))

    @property
    def kv_heads(self) -> int:
        return self.size("kv_heads", self.size("heads"))


@dataclass(frozen=True, slots=True)
class Attention:
    """Matrices and biases of one layer's attention, and the values it keeps of a token."""

    parameters: int
    kv_values: int


@dataclass(frozen=True, slots=True)
class Family:
    """How to count a family; each function gives one layer's parameters."""

    attention: Callable[[Config], Attention]
    mlp: Callable[[Config, int], int]
    """Of a layer, its experts aside, by the layer's index."""
    norms: Callable[[Config], int]
    final_norm: Callable[[Config], int]
    experts: Callable[[Config, int], int] = field(default=lambda config, layer: 0)
    """Parameters of all experts of a layer."""
    positions: Callable[[Config], int] = field(default=lambda config: 0)
    """A table of learned positions."""
    extra: Callable[[Config], int] = field(default=lambda config: 0)
    is_tied: bool = False
    """Unless the configuration says otherwise."""
    has_head_bias: bool = False
    sets_tie: bool = True
    """Whether `tie_word_embeddings` in the configuration decides."""


def with_layers(values: Mapping[str, Any], num_layers: int) -> dict[str, Any]:
    """The configuration of a model that ends after so many of its layers."""
    names = [name for name in _NAMES["layers"] if name in values]
    return {**values, **dict.fromkeys(names, num_layers)}


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
    return _count(Config(name, values), family_name, family)


def _count(config: Config, family_name: str, family: Family) -> ModelShape:
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


def _experts_per_row(config: Config) -> int:
    return min(config.size("num_experts_per_tok"), config.size("num_experts"))


def _dtype(values: Mapping[str, Any]) -> str | None:
    stated = values.get("dtype", values.get("torch_dtype"))
    return stated if isinstance(stated, str) else None


# ── attention ─────────────────────────────────────────────────────────────────────────────────


def _attention(
    config: Config,
    *,
    qkv_bias: bool = False,
    out_bias: bool = False,
    kv_heads: int | None = None,
    extra: int = 0,
) -> Attention:
    hidden, heads, head_dim = config.size("hidden"), config.size("heads"), config.head_dim
    kv_heads = config.kv_heads if kv_heads is None else kv_heads
    queries, keys = heads * head_dim, kv_heads * head_dim
    matrices = hidden * (queries + 2 * keys) + queries * hidden
    biases = (queries + 2 * keys) * qkv_bias + hidden * out_bias
    return Attention(matrices + biases + extra, 2 * keys)


def _plain_attention(config: Config) -> Attention:
    is_biased = config.flag("attention_bias")
    return _attention(config, qkv_bias=is_biased, out_bias=is_biased)


def _biased_attention(config: Config) -> Attention:
    return _attention(config, qkv_bias=True, out_bias=True, kv_heads=config.size("heads"))


def _with_qk_norms(config: Config) -> Attention:
    """A norm over each head's queries and one over its keys."""
    is_biased = config.flag("attention_bias")
    return _attention(config, qkv_bias=is_biased, out_bias=is_biased, extra=2 * config.head_dim)


def _with_wide_qk_norms(config: Config) -> Attention:
    """A norm over all queries of a token and one over all its keys."""
    widths = (config.size("heads") + config.kv_heads) * config.head_dim
    is_biased = config.flag("attention_bias")
    return _attention(config, qkv_bias=is_biased, out_bias=is_biased, extra=widths)


def _cohere_attention(config: Config) -> Attention:
    has_norms = config.flag("use_qk_norm")
    return _with_wide_qk_norms(config) if has_norms else _plain_attention(config)


def _gpt_oss_attention(config: Config) -> Attention:
    """Each head has a sink."""
    is_biased = config.flag("attention_bias", True)
    sinks = config.size("heads")
    return _attention(config, qkv_bias=is_biased, out_bias=is_biased, extra=sinks)


def _falcon_attention(config: Config) -> Attention:
    heads = config.size("heads")
    if config.flag("new_decoder_architecture"):
        kv_heads = config.size("num_kv_heads", heads)
    else:
        kv_heads = 1 if config.flag("multi_query", True) else heads
    is_biased = config.flag("bias")
    return _attention(config, qkv_bias=is_biased, out_bias=is_biased, kv_heads=kv_heads)


def _stablelm_attention(config: Config) -> Attention:
    norms = (config.size("heads") + config.kv_heads) * config.head_dim
    has_norms = config.flag("qk_layernorm")
    return _attention(config, qkv_bias=config.flag("use_qkv_bias"), extra=norms * has_norms)


def _latent_attention(config: Config) -> Attention:
    """Multi-head latent attention (arXiv 2405.04434); kept expanded, as it is served."""
    hidden, heads = config.size("hidden"), config.size("heads")
    rope, nope = config.size("qk_rope_head_dim"), config.size("qk_nope_head_dim")
    latent, query = config.size("kv_lora_rank"), config.size("q_lora_rank")
    value = config.size("v_head_dim")
    is_biased = config.flag("attention_bias")
    queries = query * (hidden + heads * (nope + rope)) + query + query * is_biased
    keys = hidden * (latent + rope) + latent + latent * heads * (nope + value)
    keys += (latent + rope) * is_biased
    out = heads * value * hidden + hidden * is_biased
    return Attention(queries + keys + out, heads * (nope + rope + value))


# ── feed-forward ──────────────────────────────────────────────────────────────────────────────


def _gated(config: Config, layer: int, *, inner: int | None = None, bias: bool = False) -> int:
    inner = config.size("inner") if inner is None else inner
    hidden = config.size("hidden")
    return 3 * hidden * inner + (2 * inner + hidden) * bias


def _gated_maybe_biased(config: Config, layer: int) -> int:
    return _gated(config, layer, bias=config.flag("mlp_bias"))


def _two_matrices(config: Config, *, bias: bool = True, inner: int | None = None) -> int:
    hidden = config.size("hidden")
    inner = config.size("inner", 4 * hidden) if inner is None else inner
    return 2 * hidden * inner + (inner + hidden) * bias


def _biased_mlp(config: Config, layer: int) -> int:
    return _two_matrices(config)


def _named_mlp(name: str) -> Callable[[Config, int], int]:
    """Four times as wide as the model, unless the family's own name for it says otherwise."""
    return lambda config, layer: _two_matrices(
        config, inner=config.size(name, 4 * config.size("hidden"))
    )


def _plain_mlp(config: Config, layer: int) -> int:
    return _two_matrices(config, bias=False)


def _router(config: Config, layer: int) -> int:
    return config.size("hidden") * config.size("num_experts")


def _biased_router(config: Config, layer: int) -> int:
    return _router(config, layer) + config.size("num_experts")


def _expert_mlps(config: Config, layer: int) -> int:
    return config.size("num_experts") * _gated(config, layer)


def _is_sparse(config: Config, layer: int) -> bool:
    """Qwen: every `decoder_sparse_step`-th layer is a mixture, but for those listed."""
    step = config.size("decoder_sparse_step", 1) or 1
    dense = config.values.get("mlp_only_layers") or ()
    return layer not in dense and (layer + 1) % step == 0 and config.size("num_experts") > 0


def _qwen_experts(config: Config, layer: int) -> int:
    if not _is_sparse(config, layer):
        return 0
    inner = config.size("moe_intermediate_size")
    return config.size("num_experts") * _gated(config, layer, inner=inner)


def _qwen2_moe_mlp(config: Config, layer: int) -> int:
    """Beside the experts: a router, an expert for all tokens, and its gate."""
    if not _is_sparse(config, layer):
        return _gated(config, layer)
    shared = _gated(config, layer, inner=config.size("shared_expert_intermediate_size"))
    return _router(config, layer) + shared + config.size("hidden")


def _qwen3_moe_mlp(config: Config, layer: int) -> int:
    return _router(config, layer) if _is_sparse(config, layer) else _gated(config, layer)


def _gpt_oss_experts(config: Config, layer: int) -> int:
    return config.size("num_experts") * _gated(config, layer, bias=True)


def _deepseek_experts(config: Config, layer: int) -> int:
    if layer < config.size("first_k_dense_replace", 3):
        return 0
    inner = config.size("moe_intermediate_size")
    return config.size("num_experts") * _gated(config, layer, inner=inner)


def _deepseek_mlp(config: Config, layer: int) -> int:
    if layer < config.size("first_k_dense_replace", 3):
        return _gated(config, layer)
    inner = config.size("moe_intermediate_size") * config.size("n_shared_experts", 1)
    return _router(config, layer) + _gated(config, layer, inner=inner)


# ── norms, positions ──────────────────────────────────────────────────────────────────────────


def _norms(count: int, *, has_bias: bool) -> Callable[[Config], int]:
    """So many norms as wide as the model; a layer norm has a bias where an RMS norm has none."""
    return lambda config: count * (1 + has_bias) * config.size("hidden")


def _falcon_norms(config: Config) -> int:
    if config.flag("new_decoder_architecture"):
        count = config.size("num_ln_in_parallel_attn", 2)
    else:
        count = 1 if config.flag("parallel_attn", True) else 2
    return count * 2 * config.size("hidden")


def _stablelm_norms(config: Config) -> int:
    return (1 if config.flag("use_parallel_residual") else 2) * 2 * config.size("hidden")


def _learned_positions(offset: int = 0) -> Callable[[Config], int]:
    return lambda config: (config.size("context") + offset) * config.size("hidden")


def _none(config: Config) -> int:
    return 0


_RMS: dict[str, Any] = {
    "norms": _norms(2, has_bias=False),
    "final_norm": _norms(1, has_bias=False),
}
_LAYER_NORMS: dict[str, Any] = {
    "norms": _norms(2, has_bias=True),
    "final_norm": _norms(1, has_bias=True),
}
_LLAMA = Family(_plain_attention, _gated_maybe_biased, **_RMS)
_GPT2: dict[str, Any] = {"positions": _learned_positions(), "is_tied": True}

FAMILIES: Mapping[str, Family] = {
    "llama": _LLAMA,
    "mistral": Family(_attention, _gated, **_RMS),
    "granite": Family(_plain_attention, _gated_maybe_biased, **_RMS),
    "smollm3": Family(_plain_attention, _gated_maybe_biased, **_RMS, is_tied=True),
    "qwen2": Family(lambda config: _attention(config, qkv_bias=True), _gated, **_RMS),
    "qwen3": Family(_with_qk_norms, _gated, **_RMS),
    "olmo2": Family(_with_wide_qk_norms, _gated, **_RMS),
    "phi3": Family(_attention, _gated, **_RMS),
    "gemma": Family(_plain_attention, _gated, **_RMS, is_tied=True),
    "gemma2": Family(
        _plain_attention,
        _gated,
        norms=_norms(4, has_bias=False),
        final_norm=_norms(1, has_bias=False),
        is_tied=True,
    ),
    "gemma3_text": Family(
        _with_qk_norms,
        _gated,
        norms=_norms(4, has_bias=False),
        final_norm=_norms(1, has_bias=False),
        is_tied=True,
    ),
    "cohere": Family(
        _cohere_attention,
        _gated,
        norms=_norms(1, has_bias=False),
        final_norm=_norms(1, has_bias=False),
        is_tied=True,
    ),
    "phi": Family(
        lambda config: _attention(config, qkv_bias=True, out_bias=True),
        _biased_mlp,
        norms=_norms(1, has_bias=True),
        final_norm=_norms(1, has_bias=True),
        has_head_bias=True,
    ),
    "starcoder2": Family(
        lambda config: _attention(
            config, qkv_bias=config.flag("use_bias", True), out_bias=config.flag("use_bias", True)
        ),
        lambda config, layer: _two_matrices(config, bias=config.flag("use_bias", True)),
        **_LAYER_NORMS,
        is_tied=True,
    ),
    "stablelm": Family(
        _stablelm_attention,
        _gated,
        norms=_stablelm_norms,
        final_norm=_norms(1, has_bias=True),
    ),
    "gpt2": Family(_biased_attention, _named_mlp("n_inner"), **_LAYER_NORMS, **_GPT2),
    "gpt_bigcode": Family(
        lambda config: _attention(
            config,
            qkv_bias=True,
            out_bias=True,
            kv_heads=1 if config.flag("multi_query", True) else config.size("heads"),
        ),
        _named_mlp("n_inner"),
        **_LAYER_NORMS,
        **_GPT2,
    ),
    "gpt_neox": Family(
        lambda config: _attention(
            config,
            qkv_bias=config.flag("attention_bias", True),
            out_bias=config.flag("attention_bias", True),
            kv_heads=config.size("heads"),
        ),
        _biased_mlp,
        **_LAYER_NORMS,
    ),
    "gptj": Family(
        lambda config: _attention(config, kv_heads=config.size("heads")),
        _named_mlp("n_inner"),
        norms=_norms(1, has_bias=True),
        final_norm=_norms(1, has_bias=True),
        has_head_bias=True,
    ),
    "gpt_neo": Family(
        lambda config: _attention(config, out_bias=True, kv_heads=config.size("heads")),
        _biased_mlp,
        **_LAYER_NORMS,
        positions=_learned_positions(),
        is_tied=True,
    ),
    "opt": Family(
        _biased_attention,
        _biased_mlp,
        **_LAYER_NORMS,
        positions=_learned_positions(2),
        is_tied=True,
    ),
    "falcon": Family(
        _falcon_attention,
        lambda config, layer: _two_matrices(
            config,
            bias=config.flag("bias"),
            inner=config.size("ffn_hidden_size", 4 * config.size("hidden")),
        ),
        norms=_falcon_norms,
        final_norm=_norms(1, has_bias=True),
        is_tied=True,
    ),
    "bloom": Family(
        _biased_attention,
        lambda config, layer: _two_matrices(config, inner=4 * config.size("hidden")),
        **_LAYER_NORMS,
        extra=_norms(1, has_bias=True),
        is_tied=True,
    ),
    "mpt": Family(
        lambda config: _attention(config, kv_heads=config.size("heads")),
        lambda config, layer: _two_matrices(
            config, bias=False, inner=config.size("expansion_ratio", 4) * config.size("hidden")
        ),
        **_RMS,
        is_tied=True,
        sets_tie=False,
    ),
    "mixtral": Family(_attention, _router, **_RMS, experts=_expert_mlps),
    "qwen2_moe": Family(
        lambda config: _attention(config, qkv_bias=config.flag("qkv_bias", True)),
        _qwen2_moe_mlp,
        **_RMS,
        experts=_qwen_experts,
    ),
    "qwen3_moe": Family(_with_qk_norms, _qwen3_moe_mlp, **_RMS, experts=_qwen_experts),
    "gpt_oss": Family(_gpt_oss_attention, _biased_router, **_RMS, experts=_gpt_oss_experts),
    "phimoe": Family(_plain_attention, _router, **_LAYER_NORMS, experts=_expert_mlps),
    "deepseek_v3": Family(_latent_attention, _deepseek_mlp, **_RMS, experts=_deepseek_experts),
}
