"""The name of the device this process is pinned to."""

import torch


def device_id(core: int | None) -> str:
    """The GPU's UUID where a GPU is visible, else the CPU core; unique on a node."""
    if torch.cuda.is_available():
        return f"gpu:{torch.cuda.get_device_properties(0).uuid}"
    return "cpu" if core is None else f"cpu:{core}"
