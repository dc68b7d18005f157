"""Memory for KV that costs nothing until it is used.

On a CPU a buffer is an anonymous private mapping: the kernel gives it zeroed pages as slots are
written and takes all of them back when the tensor goes, so room may be reserved far ahead and the
process holds what its slots hold. Elsewhere a buffer is an ordinary tensor.
"""

import mmap
from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor


def kv_buffer(shape: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros, because attention adds -inf to the score of an unseen slot: -inf + nan is nan."""
    num_bytes = prod(shape) * dtype.itemsize
    if not takes_pages_on_demand(device) or num_bytes == 0:
        return torch.zeros(*shape, dtype=dtype, device=device)
    mapping = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(mapping, dtype=dtype).view(*shape)


def takes_pages_on_demand(device: torch.device) -> bool:
    """Whether unused room costs nothing there."""
    return device.type == "cpu" and hasattr(mmap, "MAP_ANONYMOUS")
