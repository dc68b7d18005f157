"""The one way back from the device: what a round decides, in one copy."""

import torch
from torch import Tensor


def to_host(values: Tensor) -> Tensor:
    """The values in host memory, themselves if they are there; waits until they have arrived.

    Pinned memory is what a GPU writes to without a copy in between.
    """
    if values.device.type != "cuda":
        return values.cpu()
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    torch.cuda.current_stream(values.device).synchronize()
    return host


def ids_and_numbers(ids: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Integers below 2^53 and floats of a device, in one copy: int64 and float64."""
    both = to_host(torch.stack([ids.double(), numbers.double()]))
    return both[0].long(), both[1]
