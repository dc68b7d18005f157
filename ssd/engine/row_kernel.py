"""Products of few rows with large matrices, at the speed at which a core reads the matrices."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from llvmlite import binding
from torch import Tensor
from torch.nn import functional

from ssd.engine.row_loops import compile_loops

# Weights of a product that is done before other threads have woken up.
_WORTH_THREADS = 2**15
_AS_TORCH = 0


@dataclass(frozen=True, slots=True)
class RowKernel:
    """Products in float32, with weights in panels of two vectors of outputs."""

    lanes: int
    """Floats of a vector."""
    max_rows: int
    """Rows whose sums stay in registers; more of them take turns within a panel."""
    loops: Any
    gated_loops: Any

    def lay_out(self, weight: Tensor) -> Tensor:
        """[out, in] becomes [panels, in, columns], with zeros where outputs do not fill a panel."""
        num_out, num_in = weight.shape
        filled = functional.pad(weight, (0, 0, 0, -num_out % (2 * self.lanes)))
        return filled.view(-1, 2 * self.lanes, num_in).transpose(1, 2).contiguous()

    def lay_out_gated(self, gate: Tensor, up: Tensor) -> Tensor:
        """Two of [out, in] become [panels, in, columns], each the half of a panel."""
        num_out, num_in = gate.shape
        filled = [
            functional.pad(each, (0, 0, 0, -num_out % self.lanes)).view(-1, self.lanes, num_in)
            for each in (gate, up)
        ]
        return torch.cat(filled, dim=1).transpose(1, 2).contiguous()

    def product(self, rows: Tensor, panels: Tensor) -> Tensor:
        """`rows @ weight.T`: [rows, in] gives [rows, panels * columns]."""
        return self._run(self.loops, rows, panels, num_out=panels.shape[0] * panels.shape[2])

    def gated(self, rows: Tensor, panels: Tensor) -> Tensor:
        """`silu(rows @ gate.T) * (rows @ up.T)`: [rows, in] gives [rows, panels * lanes]."""
        return self._run(self.gated_loops, rows, panels, num_out=panels.shape[0] * self.lanes)

    def _run(self, loops: Any, rows: Tensor, panels: Tensor, *, num_out: int) -> Tensor:
        num_panels, num_in, _ = panels.shape
        if rows.dtype is not torch.float32 or rows.shape[1] != num_in:
            raise ValueError(f"rows are {rows.shape[1]} wide in {rows.dtype}, weights {num_in}")
        num_rows = rows.shape[0]
        rows = rows.contiguous()
        sums = rows.new_empty(num_rows, num_out)
        if num_rows > 0:
            turns = -(-num_rows // self.max_rows)
            at_a_time = -(-num_rows // turns)
            num_threads = _AS_TORCH if panels.numel() > _WORTH_THREADS else 1
            addresses = rows.data_ptr(), panels.data_ptr(), sums.data_ptr()
            loops(*addresses, num_rows, at_a_time, num_in, num_panels, num_threads)
        return sums


@cache
def row_kernel() -> RowKernel | None:
    """The kernel for this process; None where its CPU or its OpenMP is of another kind."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return build_kernel(lanes=16, max_rows=14)  # sums in 28 of 32 registers
    if features.get("avx2") and features.get("fma"):
        return build_kernel(lanes=8, max_rows=6)  # 12 of 16
    return None


def build_kernel(*, lanes: int, max_rows: int, cpu: str = "") -> RowKernel | None:
    """With vectors of so many floats, for another CPU than this one if it is named."""
    loops, gated_loops = (
        compile_loops(lanes=lanes, max_rows=max_rows, is_gated=is_gated, cpu=cpu)
        for is_gated in (False, True)
    )
    return None if loops is None else RowKernel(lanes, max_rows, loops, gated_loops)
