"""Parameters counted from configurations equal those of the models that transformers builds."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ssd.advise import FAMILIES, shape_of
from ssd.core.errors import ConfigError
from ssd.engine.transformers_runner import TransformersRunner
from tests.advise import configurations
from tests.engine.row_groups import chain
from tests.engine.tiny_models import ARCHITECTURES, SIZES, tiny_model

COUNTED = {
    name: changes for name, changes in ARCHITECTURES.items() if changes["model_type"] in FAMILIES
}
MORE: dict[str, dict[str, Any]] = {
    "qwen2_moe, every second layer": {
        **ARCHITECTURES["qwen2_moe"],
        "num_hidden_layers": 4,
        "decoder_sparse_step": 2,
    },
    "qwen3_moe, one dense": {**ARCHITECTURES["qwen3_moe"], "mlp_only_layers": [0]},
    "gpt_neox, no biases": {"model_type": "gpt_neox", "attention_bias": False},
    "gemma, heads wider than the model": {"model_type": "gemma", "head_dim": 64},
    "cohere with norms": {"model_type": "cohere", "use_qk_norm": True},
    "llama tied": {"model_type": "llama", "tie_word_embeddings": True},
    "qwen2 tied": {"model_type": "qwen2", "tie_word_embeddings": True},
}


def _values(folder: Path, changes: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """A configuration as the library writes it to a file, and as it has it."""
    config = AutoConfig.for_model(**{**SIZES, **changes})
    config.save_pretrained(folder)
    return json.loads((folder / "config.json").read_text("utf-8")), config


def test_most_of_what_is_served_can_be_counted() -> None:
    assert len(FAMILIES) >= 29
    assert len({changes["model_type"] for changes in COUNTED.values()}) == len(FAMILIES)


@pytest.mark.parametrize("name", [*COUNTED, *MORE])
def test_every_parameter_is_counted_once(name: str, tmp_path: Path) -> None:
    values, config = _values(tmp_path, (COUNTED | MORE)[name])
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    shape = shape_of(name, values)
    assert shape.num_parameters == sum(each.numel() for each in model.parameters())
    assert shape.vocab_size == config.vocab_size


@pytest.mark.parametrize("name", ["llama", "gpt_bigcode", "falcon 7B", "falcon 40B", "deepseek_v3"])
def test_keys_and_values_of_a_token_are_counted_as_the_engine_keeps_them(
    name: str, tmp_path: Path
) -> None:
    values, _ = _values(tmp_path, COUNTED[name])
    runner = TransformersRunner(tiny_model(name, dtype=torch.float64))
    runner.forward([chain([3, 4])])
    assert shape_of(name, values).kv_values == runner.kv_store.slot_bytes / 8


@pytest.mark.parametrize(
    ("values", "published"),
    [
        (configurations.LLAMA_70B, 70_553_706_496),
        (configurations.LLAMA_8B, 8_030_261_248),
        (configurations.LLAMA_1B, 1_235_814_400),
        (configurations.QWEN_32B, 32_762_123_264),
        (configurations.QWEN_06B, 596_049_920),
        (configurations.MIXTRAL_8X7B, 46_702_792_704),
    ],
)
def test_released_models_have_their_published_size(values: dict[str, Any], published: int) -> None:
    assert shape_of("released", values).num_parameters == published


def test_a_token_reads_two_of_eight_experts() -> None:
    shape = shape_of("mixtral", configurations.MIXTRAL_8X7B)
    assert shape.num_active == pytest.approx(12.75e9, rel=0.01)  # published: 12.9B with the table
    assert shape.num_read(64) == pytest.approx(shape.num_parameters, rel=0.01)


def test_of_a_model_beside_others_the_text_model_is_counted() -> None:
    nested = {"model_type": "gemma3", "text_config": configurations.LLAMA_8B}
    assert shape_of("both", nested).num_parameters == 8_030_261_248


def test_a_family_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigError, match="its model_type is mamba, and those known are bloom"):
        shape_of("mamba", {"model_type": "mamba"})


def test_a_missing_size_is_named() -> None:
    values = {key: value for key, value in configurations.LLAMA_8B.items() if key != "hidden_size"}
    with pytest.raises(ConfigError, match="of odd does not give hidden_size or n_embd or d_model"):
        shape_of("odd", values)
