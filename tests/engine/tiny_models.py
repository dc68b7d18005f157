"""Small random models, in float64 so that equality means equality."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

VOCAB_SIZE = 64

_SIZES = {
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

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama"},
    "llama-3 rope": {
        "model_type": "llama",
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 128,
        },
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
    "gemma2": {
        "model_type": "gemma2",
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
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
}

WITHOUT_ATTENTION_INTERFACE: dict[str, dict[str, Any]] = {
    "bloom": {"model_type": "bloom", "n_layer": 2, "n_head": 4},
    "mpt": {"model_type": "mpt", "d_model": 32, "n_heads": 4, "n_layers": 2},
    "falcon": {"model_type": "falcon"},
    "gpt_neo": {"model_type": "gpt_neo", "num_layers": 2, "attention_types": [[["global"], 2]]},
    "stablelm": {"model_type": "stablelm"},
}

OTHERS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert"},
    "phimoe": {"model_type": "phimoe", "num_local_experts": 4, "num_experts_per_tok": 2},
}


def tiny_model(
    name: str = "llama", *, dtype: torch.dtype = torch.float64, seed: int = 0, **changes: Any
) -> PreTrainedModel:
    """A model with random weights; the same name and seed give the same weights."""
    known = ARCHITECTURES | WITHOUT_ATTENTION_INTERFACE | OTHERS
    config = AutoConfig.for_model(**{**_SIZES, **known[name], **changes})
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
