"""A product of few rows with a large matrix, at the speed at which a core reads the matrix."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from llvmlite import binding
from torch import Tensor

from ssd.engine.row_loops import compile_loops


@dataclass(frozen=True, slots=True)
class RowKernel:
    """`rows @ weight.T` in float32, with the weight in panels of some outputs each."""

    columns: int
    """Outputs of a panel: two vectors."""
    max_rows: int
    """Rows whose sums stay in registers; more of them take turns within a panel."""
    loops: Any

    def lay_out(self, weight: Tensor) -> Tensor:
        """[out, in] becomes [panels, in, columns], with zeros where outputs do not fill a panel."""
        num_out, num_in = weight.shape
        filled = torch.nn.functional.pad(weight, (0, 0, 0, -num_out % self.columns))
        return filled.view(-1, self.columns, num_in).transpose(1, 2).contiguous()

    def product(self, rows: Tensor, panels: Tensor) -> Tensor:
        """[rows, in] gives [rows, panels * columns]."""
        num_panels, num_in, columns = panels.shape
        num_rows, num_out = rows.shape[0], num_panels * columns
        rows = rows.contiguous()
        sums = rows.new_empty(num_rows, num_out)
        if num_rows == 0:
            return sums
        turns = -(-num_rows // self.max_rows)
        self.loops(
            rows.data_ptr(),
            panels.data_ptr(),
            sums.data_ptr(),
            num_rows,
            -(-num_rows // turns),
            num_in,
            num_out,
        )
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


def build_kernel(*, lanes: int, max_rows: int) -> RowKernel | None:
    """With vectors of so many floats."""
    loops = compile_loops(lanes=lanes, max_rows=max_rows)
    return None if loops is None else RowKernel(2 * lanes, max_rows, loops)
