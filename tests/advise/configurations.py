"""Configurations of released models, as far as advice reads them."""

import json
from pathlib import Path
from typing import Any

_LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
}
_QWEN: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16",
    "num_key_value_heads": 8,
    "head_dim": 128,
}

LLAMA_70B = {
    **_LLAMA,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
}
LLAMA_8B = {
    **_LLAMA,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}
LLAMA_1B = {
    **_LLAMA,
    "tie_word_embeddings": True,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "head_dim": 64,
}
QWEN_32B = {
    **_QWEN,
    "hidden_size": 5120,
    "intermediate_size": 25600,
    "num_hidden_layers": 64,
    "num_attention_heads": 64,
}
QWEN_06B = {
    **_QWEN,
    "tie_word_embeddings": True,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
}
MIXTRAL_8X7B: dict[str, Any] = {
    "model_type": "mixtral",
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "tie_word_embeddings": False,
}


def write(folder: Path, configuration: dict[str, Any]) -> str:
    """A model's folder that holds nothing but its configuration."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(configuration), encoding="utf-8")
    return str(folder)
