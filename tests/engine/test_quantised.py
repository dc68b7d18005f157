"""Quantised checkpoints run as the library runs them, or are refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from ssd.core.errors import ModelRefused
from ssd.engine.loading import load_model
from tests.engine.row_groups import chain
from tests.engine.tiny_models import save_tiny_model, tiny_model

PROMPT = (3, 1, 4, 1, 5, 9, 2, 6)
NOT_QUANTISED = ("self_attn", "mlp.router", "embed_tokens", "lm_head")


def _say_quantised(folder: Path, **quantisation: Any) -> None:
    file = folder / "config.json"
    config = json.loads(file.read_text()) | {"quantization_config": quantisation}
    file.write_text(json.dumps(config))


@pytest.fixture
def mxfp4_folder(tmp_path: Path) -> Path:
    """A gpt-oss whose experts are in four bits, 32 numbers to a common exponent."""
    tiny_model("gpt_oss", dtype=torch.bfloat16, intermediate_size=64).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    weights: dict[str, Tensor] = {}
    generator = torch.Generator().manual_seed(0)
    for name, weight in load_file(file).items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            weights[name] = weight
            continue
        num_experts, num_in, num_out = weight.shape
        shape = (num_experts, num_out, num_in // 32, 16)
        blocks = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        weights[f"{name}_blocks"] = blocks
        weights[f"{name}_scales"] = torch.full(shape[:3], 125, dtype=torch.uint8)
    save_file(weights, file, metadata={"format": "pt"})
    _say_quantised(tmp_path, quant_method="mxfp4", modules_to_not_convert=list(NOT_QUANTISED))
    return tmp_path


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_four_bit_experts_say_what_the_library_says(mxfp4_folder: Path, dtype: str) -> None:
    pytest.importorskip("accelerate", reason="the library loads mxfp4 with accelerate")
    loaded = load_model(str(mxfp4_folder), dtype=dtype)
    assert loaded.fingerprint.runner == "transformers"
    model: Any = AutoModelForCausalLM.from_pretrained(
        mxfp4_folder, dtype={"bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
    )
    with torch.inference_mode():
        expected = model(torch.tensor([PROMPT])).logits[0].float()
    actual = loaded.runner.forward([chain(PROMPT)])
    error = (actual - expected).square().mean().sqrt() / expected.std()
    assert float(error) < {"bf16": 0.02, "fp32": 1e-4}[dtype]


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("gptq", r"quantised \(gptq\): Loading a GPTQ"),
        ("awq", r"quantised \(awq\): Loading an AWQ"),
        ("hqq", r"quantised \(hqq\)"),
        ("quanto", r"quantised \(quanto\)"),
        ("unheard-of", r"quantised \(unheard-of\)$"),
    ],
)
def test_what_the_library_cannot_load_is_refused_by_name(
    tmp_path: Path, method: str, sentence: str
) -> None:
    folder = save_tiny_model(tmp_path)
    _say_quantised(folder, quant_method=method, bits=4, weights="int8")
    with pytest.raises(ModelRefused, match=f"{folder.name} can't be served.*{sentence}"):
        load_model(str(folder))


def test_a_method_without_a_name_is_refused(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path)
    _say_quantised(folder, bits=4)
    with pytest.raises(ModelRefused, match="by an unknown method"):
        load_model(str(folder))
