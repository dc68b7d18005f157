"""Small random models, in float64 so that equality means equality."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

VOCAB_SIZE = 64

SIZES = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,  # large enough that distant tokens change the logits
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
_SLIDING = {"sliding_window": 4}
_SOFT_CAPS = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
_LLAMA_3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama"},
    "llama 3.1 rope": {"model_type": "llama", "rope_parameters": {**_LLAMA_3_ROPE, "factor": 8.0}},
    "llama 3.2 rope": {
        "model_type": "llama",
        "tie_word_embeddings": True,
        "rope_parameters": {**_LLAMA_3_ROPE, "factor": 32.0},
    },
    "llama biased": {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "mistral": {"model_type": "mistral", "sliding_window": None},
    "mistral sliding": {"model_type": "mistral", **_SLIDING},
    "qwen2": {"model_type": "qwen2"},
    "qwen2 sliding": {
        "model_type": "qwen2",
        "use_sliding_window": True,
        "max_window_layers": 1,
        **_SLIDING,
    },
    "qwen3": {"model_type": "qwen3", "head_dim": 16},
    "qwen3 sliding": {
        "model_type": "qwen3",
        "head_dim": 16,
        "use_sliding_window": True,
        "max_window_layers": 1,
        **_SLIDING,
    },
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 512,
    },
    "gpt_neox": {"model_type": "gpt_neox"},
    "gptj": {"model_type": "gptj", "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4},
    "gpt_bigcode": {
        "model_type": "gpt_bigcode",
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 512,
    },
    "opt": {"model_type": "opt", "ffn_dim": 48, "word_embed_proj_dim": 32},
    "phi": {"model_type": "phi"},
    "phi3": {"model_type": "phi3"},
    "gemma": {"model_type": "gemma", "head_dim": 8},
    "gemma2 2B": {  # heads wider together than the model, scaled by their own width
        "model_type": "gemma2",
        "head_dim": 16,
        "query_pre_attn_scalar": 16,
        **_SOFT_CAPS,
        **_SLIDING,
    },
    "gemma2 27B": {  # scaled by hidden_size / num_attention_heads instead
        "model_type": "gemma2",
        "head_dim": 6,
        "query_pre_attn_scalar": 8,
        **_SOFT_CAPS,
        **_SLIDING,
    },
    "gemma3_text": {
        "model_type": "gemma3_text",
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "layer_types": ["sliding_attention", "full_attention"],
        **_SLIDING,
    },
    "starcoder2": {"model_type": "starcoder2", **_SLIDING},
    "olmo2": {"model_type": "olmo2"},
    "cohere": {"model_type": "cohere"},
    "granite": {"model_type": "granite"},
    "smollm3": {"model_type": "smollm3"},
    "mixtral": {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2_moe": {"model_type": "qwen2_moe", "num_experts": 4, **_MOE},
    "gpt_oss": {
        "model_type": "gpt_oss",
        "head_dim": 8,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "layer_types": ["sliding_attention", "full_attention"],
        **_SLIDING,
    },
    "qwen3_moe": {"model_type": "qwen3_moe", "head_dim": 16, "num_experts": 4, **_MOE},
    "phimoe sliding": {  # the window is in the mask alone
        "model_type": "phimoe",
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        **_SLIDING,
    },
    "deepseek_v3": {
        "model_type": "deepseek_v3",
        "num_key_value_heads": 4,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 12,
        "n_routed_experts": 4,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        **_MOE,
    },
    # What follows has no attention interface, or does not say that it has one.
    "stablelm": {"model_type": "stablelm", "partial_rotary_factor": 0.5},
    "stablelm 2": {
        "model_type": "stablelm",
        "qk_layernorm": True,
        "use_parallel_residual": True,
        "use_qkv_bias": True,
    },
    "falcon 7B": {"model_type": "falcon", "multi_query": True, "parallel_attn": True},
    "falcon 40B": {"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 2},
    "falcon alibi": {
        "model_type": "falcon",
        "alibi": True,
        "multi_query": False,
        "parallel_attn": False,
        "bias": True,
    },
    "bloom": {"model_type": "bloom", "n_layer": 2, "n_head": 4},
    "bloom, six heads": {"model_type": "bloom", "hidden_size": 48, "n_layer": 2, "n_head": 6},
    "mpt": {"model_type": "mpt", "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 512},
    "mpt, six heads": {
        "model_type": "mpt",
        "d_model": 48,
        "n_heads": 6,
        "n_layers": 2,
        "max_seq_len": 512,
        "attn_config": {"clip_qkv": 1.0},
    },
    "gpt_neo": {
        "model_type": "gpt_neo",
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 4,
    },
    "xglm": {
        "model_type": "xglm",
        "d_model": 32,
        "ffn_dim": 48,
        "num_layers": 2,
        "attention_heads": 4,
    },
    "biogpt": {"model_type": "biogpt"},
    "openai-gpt": {
        "model_type": "openai-gpt",
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 512,
    },
    "gpt_neox_japanese": {"model_type": "gpt_neox_japanese", "intermediate_multiple_size": 2},
}

_SHORT_ONLY = frozenset({"xglm"})  # the library's own forward fails in float64

OTHERS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert"},
    "roformer": {"model_type": "roformer", "is_decoder": True},
    "bart": {"model_type": "bart"},
}


def tiny_model(
    name: str = "llama", *, dtype: torch.dtype | None = None, seed: int = 0, **changes: Any
) -> PreTrainedModel:
    """A model with random weights, in float64 where the library can do that.

    The same name and seed give the same weights.
    """
    if dtype is None:
        dtype = torch.float32 if name in _SHORT_ONLY else torch.float64
    known = ARCHITECTURES | OTHERS
    config = AutoConfig.for_model(**{**SIZES, **known[name], **changes})
    torch.manual_seed(seed)
    # Eager experts, because torch has no grouped product of float64 matrices.
    model: PreTrainedModel = AutoModelForCausalLM.from_config(
        config, dtype=dtype, experts_implementation="eager"
    )
    _shake(model)
    return model.eval()


def _shake(model: PreTrainedModel) -> None:
    """Move norms and biases away from ones and zeros, which hide mistakes."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.2)


def save_tiny_model(folder: Path, name: str = "llama", **changes: Any) -> Path:
    """Write a float32 model as a checkpoint; returns the folder."""
    tiny_model(name, dtype=torch.float32, **changes).save_pretrained(folder)
    return folder
