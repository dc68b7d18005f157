"""The gauges and counters that drafter and verifier share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """A worker's state at one moment; `memory_bytes` by what holds it (weights, kv)."""

    num_sessions: int
    kv_slots_used: int
    kv_slots: int
    memory_bytes: Mapping[str, int]
    device_s: float
    """Seconds that the device worked for us since the start."""
    num_stale: int
    num_dropped: int


def worker_gauges(role: str, facts: WorkerFacts) -> Iterable[Metric]:
    """One sample each, labelled with the worker's role."""
    yield _gauge("ssd_sessions", "Sessions open on the worker.", role, facts.num_sessions)
    used, total = facts.kv_slots_used, facts.kv_slots
    yield _gauge("ssd_kv_slots_used", "KV slots promised to sessions.", role, used)
    yield _gauge("ssd_kv_slots_free", "KV slots that a new session may have.", role, total - used)
    memory = GaugeMetricFamily("ssd_memory_bytes", "Memory held.", labels=["role", "kind"])
    for kind, num_bytes in facts.memory_bytes.items():
        memory.add_metric([role, kind], num_bytes)
    yield memory
    yield _counter("ssd_device_seconds", "Seconds of forwards.", role, facts.device_s)
    yield _counter(
        "ssd_stale_messages",
        "Messages of a departed session, an older epoch or a passed text.",
        role,
        facts.num_stale,
    )
    yield _counter(
        "ssd_dropped_messages", "Messages that could not be read.", role, facts.num_dropped
    )


def _gauge(name: str, words: str, role: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=["role"])
    family.add_metric([role], value)
    return family


def _counter(name: str, words: str, role: str, value: float) -> CounterMetricFamily:
    family = CounterMetricFamily(name, words, labels=["role"])
    family.add_metric([role], value)
    return family
