"""Models of known size, with random weights: time depends on shapes only."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel

from ssd.engine.padding import pad_width


@dataclass(frozen=True, slots=True)
class Shape:
    """A Llama's dimensions."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    vocab_size: int = 1024

    def build(self, dtype: torch.dtype) -> PreTrainedModel:
        """The model, with the same weights each time."""
        config = LlamaConfig(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_hidden_layers=self.num_layers,
            num_attention_heads=self.num_heads,
            num_key_value_heads=self.num_kv_heads,
            max_position_embeddings=8192,
            tie_word_embeddings=True,
        )
        torch.manual_seed(0)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
        return model.eval()


ONE_MILLION = Shape(128, 400, 4, 4, 2)
FORTY_MILLION = Shape(512, 1536, 12, 8, 4)
EMBEDDED_TARGET = Shape(256, 704, 8, 4, 2)
_PADDED_WIDTH = 7168


def padded_target(dtype: torch.dtype) -> PreTrainedModel:
    """The embedded pairs' target, made as costly as one of 47M."""
    model = EMBEDDED_TARGET.build(dtype)
    pad_width(model, _PADDED_WIDTH)
    return model


def num_parameters(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def weight_bytes(model: Any) -> int:
    return sum(parameter.nbytes for parameter in model.parameters())
