"""A padded model says what it said."""

from typing import Any

import pytest
import torch

from ssd.core.errors import ConfigError, ModelRefused
from ssd.engine.lean_runner import LeanRunner
from ssd.engine.padding import pad_width
from tests.engine.row_groups import chain
from tests.engine.tiny_models import tiny_model

PROMPT = (5, 17, 3, 44, 60, 8)


@pytest.mark.parametrize("name", ["llama", "llama biased", "qwen3"])
def test_it_says_what_it_said(name: str) -> None:
    padded = tiny_model(name)
    pad_width(padded, 500)
    expected = LeanRunner(tiny_model(name), prepack=False).forward([chain(PROMPT)])
    actual = LeanRunner(padded, prepack=False).forward([chain(PROMPT)])
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def test_it_has_the_weights_of_the_wider_one_and_none_of_those_read_is_zero() -> None:
    padded: Any = tiny_model()
    pad_width(padded, 500)
    assert padded.config.intermediate_size == 500
    mlp = padded.model.layers[1].mlp
    assert mlp.gate_proj.weight.shape == (500, 32)
    assert mlp.up_proj.weight.count_nonzero() == 500 * 32
    assert mlp.down_proj.weight.shape == (32, 500)
    assert mlp.down_proj.weight[:, 48:].count_nonzero() == 0


def test_it_only_gets_wider() -> None:
    with pytest.raises(ConfigError, match="has 48 neurons a layer, more than 40"):
        pad_width(tiny_model(), 40)


def test_other_architectures() -> None:
    with pytest.raises(ModelRefused, match="gpt2 can't be padded"):
        pad_width(tiny_model("gpt2"), 500)
