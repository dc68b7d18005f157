"""A Llama's Hugging Face folder as numbers: what the exporters write in their own formats."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load_file

Weight = NDArray[np.float32]


@dataclass(frozen=True)
class LlamaFolder:
    """Configuration, weights as float32 by their names in transformers, and tokenizer.json."""

    config: dict[str, Any]
    weights: dict[str, Weight]
    tokenizer: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> "LlamaFolder":
        """Read a folder with one file of weights, in whatever number format.

        Raises:
            ValueError: it holds something that the exporters do not write.
        """
        config = _json(folder / "config.json")
        if config["model_type"] != "llama" or config["hidden_act"] != "silu":
            raise ValueError(f"{folder} is no Llama: {config['model_type']}")
        if config["attention_bias"] or config["mlp_bias"]:
            raise ValueError(f"{folder} has biases, which are not exported")
        if config["rope_parameters"]["rope_type"] != "default":
            raise ValueError(f"{folder} scales its rotary embeddings, which is not exported")
        stored = load_file(folder / "model.safetensors")
        weights = {name: each.float().numpy() for name, each in stored.items()}
        return cls(config, weights, _json(folder / "tokenizer.json"))

    @property
    def num_layers(self) -> int:
        return int(self.config["num_hidden_layers"])

    @property
    def num_heads(self) -> int:
        return int(self.config["num_attention_heads"])

    @property
    def num_kv_heads(self) -> int:
        return int(self.config["num_key_value_heads"])

    @property
    def head_dim(self) -> int:
        return int(self.config["head_dim"])

    @property
    def rope_theta(self) -> float:
        return float(self.config["rope_parameters"]["rope_theta"])

    @property
    def embeddings(self) -> Weight:
        """[vocab, hidden]"""
        return self.weights["model.embed_tokens.weight"]

    @property
    def head(self) -> Weight:
        """[vocab, hidden]; the embeddings where the two are tied."""
        return self.weights.get("lm_head.weight", self.embeddings)

    def layer(self, index: int, name: str) -> Weight:
        """A weight of a decoder layer, such as `mlp.up_proj`, [out, in] or [hidden]."""
        return self.weights[f"model.layers.{index}.{name}.weight"]


def _json(file: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return read
