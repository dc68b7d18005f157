"""A worker's figures, read from outside the thread that changes them."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from ssd.engine.loading import LoadedModel

Fact = TypeVar("Fact")
_TRIES = 5


def read_from_outside(read: Callable[[], Fact]) -> Fact:
    """Read what the engine's thread may change meanwhile: a sum over a dictionary that grows under
    it fails, and is made anew. Asking the engine itself would make a scrape wait for a forward.
    """
    for _ in range(_TRIES - 1):
        try:
            return read()
        except RuntimeError:  # "dictionary changed size during iteration"
            continue
    return read()


def memory_of(loaded: LoadedModel) -> Mapping[str, int]:
    """Bytes of the model's weights and, where its runner keeps them in a store, of the KV."""
    memory = {"weights": loaded.weight_bytes}
    store = getattr(loaded.runner, "kv_store", None)
    if store is not None:
        memory["kv"] = store.num_bytes
    return memory
