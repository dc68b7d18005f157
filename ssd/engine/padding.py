"""Width padding: a model that says what it said and costs what a larger one costs.

    gate_up   [ trained | random ]      more neurons in every MLP,
    down      [ trained | zeros  ]      of which nothing comes out

From one small trained pair this makes any ratio of draft to target cost. The weights are read and
multiplied at full price, because neither the runners nor the kernels look for zeros.
"""

from typing import Any

import torch
from torch import nn

from ssd.core.errors import ConfigError, ModelRefused
from ssd.engine.pretrained import LLAMA_LIKE


@torch.no_grad()
def pad_width(model: Any, intermediate_size: int) -> None:
    """Widen every MLP of a Llama-like model, in place.

    Raises:
        ModelRefused: it has no gated MLP that we know.
        ConfigError: it is wider than that already.
    """
    config = model.config
    if config.model_type not in LLAMA_LIKE:
        raise ModelRefused(f"{config.model_type} can't be padded")
    if intermediate_size < config.intermediate_size:
        raise ConfigError(
            f"the model has {config.intermediate_size} neurons a layer, more than "
            f"{intermediate_size}"
        )
    generator = torch.Generator().manual_seed(0)
    for layer in model.model.layers:
        mlp = layer.mlp
        mlp.gate_proj = _widened(mlp.gate_proj, intermediate_size, generator)
        mlp.up_proj = _widened(mlp.up_proj, intermediate_size, generator)
        mlp.down_proj = _deepened(mlp.down_proj, intermediate_size)
    config.intermediate_size = intermediate_size


def _widened(linear: nn.Linear, num_out: int, generator: torch.Generator) -> nn.Linear:
    """More outputs, with weights of the size of those that are there."""
    wider = _like(linear, linear.in_features, num_out)
    spread = float(linear.weight.float().std())
    noise = torch.randn(num_out, linear.in_features, generator=generator) * spread
    wider.weight.copy_(noise)
    wider.weight[: linear.out_features] = linear.weight
    if linear.bias is not None:
        wider.bias.zero_()
        wider.bias[: linear.out_features] = linear.bias
    return wider


def _deepened(linear: nn.Linear, num_in: int) -> nn.Linear:
    """More inputs, which count for nothing."""
    deeper = _like(linear, num_in, linear.out_features)
    deeper.weight.zero_()
    deeper.weight[:, : linear.in_features] = linear.weight
    if linear.bias is not None:
        deeper.bias.copy_(linear.bias)
    return deeper


def _like(linear: nn.Linear, num_in: int, num_out: int) -> nn.Linear:
    made: nn.Linear = nn.utils.skip_init(
        nn.Linear,
        num_in,
        num_out,
        bias=linear.bias is not None,
        dtype=linear.weight.dtype,
        device=linear.weight.device,
    )
    return made
