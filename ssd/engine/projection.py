"""Linear layers laid out for few rows.

On CPU, torch's product of a few rows with a plain weight matrix uses half the memory bandwidth or
less. In float32 ours is as fast as memory (`row_kernel`). For bfloat16, and where there is no such
kernel, oneDNN is two to three times faster with weights in its own layout, the one that torch's
compiler packs them into; those operators are not public API, so they are tried once and else done
without.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ssd.engine.row_kernel import RowKernel, row_kernel

Projection = Callable[[Tensor], Tensor]
"""`x @ weight.T + bias` of rows [rows, in]: [rows, out]."""

_PACKABLE = frozenset({torch.float32, torch.bfloat16})
# A hint: the layout serves any number of rows. The one chosen for 64 is the fastest for 1 and for 8
# as well, a tenth faster than those chosen for so few (docs/performance-log.md).
_ROWS_TO_PACK_FOR = 64
# Of small layers one product of gate and up spares a call; of larger ones two products over
# contiguous rows are faster by a tenth and more (docs/performance-log.md).
_JOINED_WEIGHTS = 2**17
# A product with weights laid out anew takes 4 to 10 us however small it is; a plain one of so few
# weights, in fp32, less.
_WORTH_PACKING = 2**12


def projection(layers: Sequence[nn.Linear], *, prepack: bool) -> Projection:
    """One linear layer, or several that share their input, as one product."""
    weight = torch.cat([layer.weight.detach() for layer in layers])
    bias = _joint_bias(layers)
    is_tiny = weight.numel() <= _WORTH_PACKING and weight.dtype is torch.float32
    if not prepack or is_tiny:
        return lambda rows: functional.linear(rows, weight, bias)
    kernel = row_kernel()
    if weight.dtype is torch.float32 and kernel is not None:
        return _Streamed(weight, bias, kernel)
    return _Packed(weight, bias)


def gated_projection(gate: nn.Linear, up: nn.Linear, *, prepack: bool) -> Projection:
    """`silu(gate(x)) * up(x)`."""
    kernel = row_kernel() if prepack and gate.weight.dtype is torch.float32 else None
    if kernel is not None and gate.bias is None and up.bias is None:
        return _StreamedGate(gate, up, kernel)
    if gate.weight.numel() <= _JOINED_WEIGHTS:
        joined = projection([gate, up], prepack=prepack)
        return lambda rows: _gated(*joined(rows).chunk(2, dim=-1))
    gate_part, up_part = (projection([each], prepack=prepack) for each in (gate, up))
    return lambda rows: _gated(gate_part(rows), up_part(rows))


def _gated(gate: Tensor, up: Tensor) -> Tensor:
    return functional.silu(gate).mul_(up)


class _Streamed:
    """By our own kernel, with weights in panels."""

    def __init__(self, weight: Tensor, bias: Tensor | None, kernel: RowKernel) -> None:
        self._num_out, self._num_in = weight.shape
        self._bias = bias
        self._kernel = kernel
        self._panels = kernel.lay_out(weight)

    def __call__(self, rows: Tensor) -> Tensor:
        sums = self._kernel.product(rows, self._panels)
        if sums.shape[1] != self._num_out:
            sums = sums[:, : self._num_out].contiguous()
        return sums if self._bias is None else sums.add_(self._bias)


class _StreamedGate:
    """Both in one, with what they say of a row kept in registers."""

    def __init__(self, gate: nn.Linear, up: nn.Linear, kernel: RowKernel) -> None:
        self._num_out = gate.out_features
        self._kernel = kernel
        self._panels = kernel.lay_out_gated(gate.weight.detach(), up.weight.detach())

    def __call__(self, rows: Tensor) -> Tensor:
        gated = self._kernel.gated(rows, self._panels)
        return gated if gated.shape[1] == self._num_out else gated[:, : self._num_out].contiguous()


class _Packed:
    """By oneDNN, with weights in its layout."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._bias = bias
        # Looked up once: the name is one of several overloads.
        self._multiply: Any = torch.ops.mkldnn._linear_pointwise.default
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS_TO_PACK_FOR)

    def __call__(self, rows: Tensor) -> Tensor:
        product: Tensor = self._multiply(rows, self._weight, self._bias, "none", [], "")
        return product


def can_prepack(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether weights can be laid out anew here, for our loops or for oneDNN."""
    if device.type != "cpu" or dtype not in _PACKABLE:
        return False
    return _is_streamed(dtype) or _multiplies_by_onednn(dtype, device)


def arithmetic(dtype: torch.dtype) -> str:
    """A name for how weights laid out anew are added up: equal names say equal sums."""
    return "streamed" if _is_streamed(dtype) else "prepacked"


def _is_streamed(dtype: torch.dtype) -> bool:
    return dtype is torch.float32 and row_kernel() is not None


def product(rows: Tensor, others: Tensor) -> Tensor:
    """[batch, rows, dim] times [batch, others, dim] gives [batch, rows, others]."""
    if not _multiplies_by_onednn(rows.dtype, rows.device):
        return torch.matmul(rows, others.transpose(1, 2))
    # One by one: the operator takes matrices, and is still half again as fast as a batched product.
    multiply = torch.ops.mkldnn._linear_pointwise
    return torch.stack(
        [
            multiply(some, other, None, "none", [], "")
            for some, other in zip(rows, others, strict=True)
        ]
    )


@cache
def _multiplies_by_onednn(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether its operators are there and say what a plain product says."""
    if device.type != "cpu" or dtype not in _PACKABLE:
        return False
    rows = torch.linspace(-1, 1, 64, dtype=dtype).reshape(2, 32)
    with torch.inference_mode():
        try:
            weight = torch.eye(48, 32, dtype=dtype)
            return torch.equal(_Packed(weight, None)(rows), functional.linear(rows, weight))
        except (AttributeError, RuntimeError, TypeError):  # no such operator, or not for this CPU
            return False


def _joint_bias(layers: Sequence[nn.Linear]) -> Tensor | None:
    if all(layer.bias is None for layer in layers):
        return None
    return torch.cat(
        [
            layer.weight.new_zeros(layer.out_features)
            if layer.bias is None
            else layer.bias.detach()
            for layer in layers
        ]
    )
