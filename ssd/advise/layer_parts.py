"""How many parameters the parts of one layer have: attention, feed-forward, norms, positions."""

from collections.abc import Callable
from dataclasses import dataclass

from ssd.advise.model_config import ModelConfig


@dataclass(frozen=True, slots=True)
class Attention:
    """Matrices and biases of one layer's attention, and the values it keeps of a token."""

    parameters: int
    kv_values: int


# ── attention ─────────────────────────────────────────────────────────────────────────────────


def attention(
    config: ModelConfig,
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


def plain_attention(config: ModelConfig) -> Attention:
    is_biased = config.flag("attention_bias")
    return attention(config, qkv_bias=is_biased, out_bias=is_biased)


def biased_attention(config: ModelConfig) -> Attention:
    return attention(config, qkv_bias=True, out_bias=True, kv_heads=config.size("heads"))


def with_qk_norms(config: ModelConfig) -> Attention:
    """A norm over each head's queries and one over its keys."""
    is_biased = config.flag("attention_bias")
    return attention(config, qkv_bias=is_biased, out_bias=is_biased, extra=2 * config.head_dim)


def with_wide_qk_norms(config: ModelConfig) -> Attention:
    """A norm over all queries of a token and one over all its keys."""
    widths = (config.size("heads") + config.kv_heads) * config.head_dim
    is_biased = config.flag("attention_bias")
    return attention(config, qkv_bias=is_biased, out_bias=is_biased, extra=widths)


def cohere_attention(config: ModelConfig) -> Attention:
    has_norms = config.flag("use_qk_norm")
    return with_wide_qk_norms(config) if has_norms else plain_attention(config)


def gpt_oss_attention(config: ModelConfig) -> Attention:
    """Each head has a sink."""
    is_biased = config.flag("attention_bias", True)
    sinks = config.size("heads")
    return attention(config, qkv_bias=is_biased, out_bias=is_biased, extra=sinks)


def falcon_attention(config: ModelConfig) -> Attention:
    heads = config.size("heads")
    if config.flag("new_decoder_architecture"):
        kv_heads = config.size("num_kv_heads", heads)
    else:
        kv_heads = 1 if config.flag("multi_query", True) else heads
    is_biased = config.flag("bias")
    return attention(config, qkv_bias=is_biased, out_bias=is_biased, kv_heads=kv_heads)


def stablelm_attention(config: ModelConfig) -> Attention:
    norms = (config.size("heads") + config.kv_heads) * config.head_dim
    has_norms = config.flag("qk_layernorm")
    return attention(config, qkv_bias=config.flag("use_qkv_bias"), extra=norms * has_norms)


def latent_attention(config: ModelConfig) -> Attention:
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


def gated(config: ModelConfig, layer: int, *, inner: int | None = None, bias: bool = False) -> int:
    inner = config.size("inner") if inner is None else inner
    hidden = config.size("hidden")
    return 3 * hidden * inner + (2 * inner + hidden) * bias


def gated_maybe_biased(config: ModelConfig, layer: int) -> int:
    return gated(config, layer, bias=config.flag("mlp_bias"))


def two_matrices(config: ModelConfig, *, bias: bool = True, inner: int | None = None) -> int:
    hidden = config.size("hidden")
    inner = config.size("inner", 4 * hidden) if inner is None else inner
    return 2 * hidden * inner + (inner + hidden) * bias


def biased_mlp(config: ModelConfig, layer: int) -> int:
    return two_matrices(config)


def named_mlp(name: str) -> Callable[[ModelConfig, int], int]:
    """Four times as wide as the model, unless the family's own name for it says otherwise."""
    return lambda config, layer: two_matrices(
        config, inner=config.size(name, 4 * config.size("hidden"))
    )


def plain_mlp(config: ModelConfig, layer: int) -> int:
    return two_matrices(config, bias=False)


def router(config: ModelConfig, layer: int) -> int:
    return config.size("hidden") * config.size("num_experts")


def biased_router(config: ModelConfig, layer: int) -> int:
    return router(config, layer) + config.size("num_experts")


def expert_mlps(config: ModelConfig, layer: int) -> int:
    return config.size("num_experts") * gated(config, layer)


def is_sparse(config: ModelConfig, layer: int) -> bool:
    """Qwen: every `decoder_sparse_step`-th layer is a mixture, but for those listed."""
    step = config.size("decoder_sparse_step", 1) or 1
    dense = config.values.get("mlp_only_layers") or ()
    return layer not in dense and (layer + 1) % step == 0 and config.size("num_experts") > 0


def qwen_experts(config: ModelConfig, layer: int) -> int:
    if not is_sparse(config, layer):
        return 0
    inner = config.size("moe_intermediate_size")
    return config.size("num_experts") * gated(config, layer, inner=inner)


def qwen2_moe_mlp(config: ModelConfig, layer: int) -> int:
    """Beside the experts: a router, an expert for all tokens, and its gate."""
    if not is_sparse(config, layer):
        return gated(config, layer)
    shared = gated(config, layer, inner=config.size("shared_expert_intermediate_size"))
    return router(config, layer) + shared + config.size("hidden")


def qwen3_moe_mlp(config: ModelConfig, layer: int) -> int:
    return router(config, layer) if is_sparse(config, layer) else gated(config, layer)


def gpt_oss_experts(config: ModelConfig, layer: int) -> int:
    return config.size("num_experts") * gated(config, layer, bias=True)


def deepseek_experts(config: ModelConfig, layer: int) -> int:
    if layer < config.size("first_k_dense_replace", 3):
        return 0
    inner = config.size("moe_intermediate_size")
    return config.size("num_experts") * gated(config, layer, inner=inner)


def deepseek_mlp(config: ModelConfig, layer: int) -> int:
    if layer < config.size("first_k_dense_replace", 3):
        return gated(config, layer)
    inner = config.size("moe_intermediate_size") * config.size("n_shared_experts", 1)
    return router(config, layer) + gated(config, layer, inner=inner)


# ── norms, positions ──────────────────────────────────────────────────────────────────────────


def norms(count: int, *, has_bias: bool) -> Callable[[ModelConfig], int]:
    """So many norms as wide as the model; a layer norm has a bias where an RMS norm has none."""
    return lambda config: count * (1 + has_bias) * config.size("hidden")


def falcon_norms(config: ModelConfig) -> int:
    if config.flag("new_decoder_architecture"):
        count = config.size("num_ln_in_parallel_attn", 2)
    else:
        count = 1 if config.flag("parallel_attn", True) else 2
    return count * 2 * config.size("hidden")


def stablelm_norms(config: ModelConfig) -> int:
    return (1 if config.flag("use_parallel_residual") else 2) * 2 * config.size("hidden")


def learned_positions(offset: int = 0) -> Callable[[ModelConfig], int]:
    return lambda config: (config.size("context") + offset) * config.size("hidden")


def none(config: ModelConfig) -> int:
    return 0
