"""A worker's figures, read from outside the thread that changes them."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from ssd.core.kv_pool import KvPool
from ssd.engine.loading import LoadedModel
from ssd.telemetry.worker_metrics import KvFacts

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


def kv_of(pool: KvPool, *, num_preempted: int) -> KvFacts:
    """The books of the pool; `num_preempted` sessions were closed for want of room."""
    return KvFacts(
        num_slots=pool.num_slots,
        num_held=pool.num_held,
        num_cached=pool.num_cached,
        num_prefix_hits=pool.num_prefix_hits,
        num_prefix_tokens=pool.num_prefix_tokens,
        num_evicted=pool.num_evicted,
        num_preempted=num_preempted,
    )
