"""How many KV slots a worker may have, decided once, when the model is loaded and warm."""

from pathlib import Path
from typing import Protocol, runtime_checkable

import psutil
import torch

from ssd.config import parse_memory
from ssd.core.errors import ConfigError
from ssd.core.kv_pool import BLOCK_SLOTS
from ssd.engine.kv_store import KvStore
from ssd.engine.loading import LoadedModel

_GPU_SHARE = 0.8
_UNKNOWN_SLOTS = 65_536  # for runners that keep no tensors


@runtime_checkable
class _OwnsKv(Protocol):
    kv_store: KvStore


def kv_slots(
    model: LoadedModel, *, memory: str, slots: int | None, device: str, cpu_share: float
) -> int:
    """The slots asked for, or as many as fit the memory asked for; whole blocks.

    `auto` takes a part of the memory that is free now: `cpu_share` of a CPU's, which others need
    too, and most of a GPU's.

    Raises:
        ConfigError: that is less than a block.
    """
    slot_bytes = model.runner.kv_store.slot_bytes if isinstance(model.runner, _OwnsKv) else 0
    if slots is None:
        num_bytes = parse_memory(memory)
        if num_bytes is None:
            share = _GPU_SHARE if device == "cuda" else cpu_share
            num_bytes = int(share * _free_bytes(device))
        slots = num_bytes // slot_bytes if slot_bytes else _UNKNOWN_SLOTS
    blocks = slots // BLOCK_SLOTS
    if blocks < 1:
        raise ConfigError(
            f"KV memory for {slots} tokens is too little: {model.name} needs {slot_bytes} bytes a "
            f"token and at least {BLOCK_SLOTS} tokens"
        )
    return blocks * BLOCK_SLOTS


def _free_bytes(device: str) -> int:
    if device == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    return int(min(psutil.virtual_memory().available, _group_limit()))


def _group_limit() -> float:
    """What is left of the memory that this process's control group may take."""
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text()
        return float(limit) - float(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):  # no control group, or one without a limit ("max")
        return float("inf")
