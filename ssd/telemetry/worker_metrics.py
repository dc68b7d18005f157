"""The gauges and counters that drafter and verifier share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


@dataclass(frozen=True, slots=True)
class KvFacts:
    """The books of a worker's KV slots; counts are since its start."""

    num_slots: int
    num_held: int  # by open sessions
    num_cached: int  # by ended texts, which go when a session needs the room
    num_prefix_hits: int
    num_prefix_tokens: int
    num_evicted: int
    num_preempted: int


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """A worker's state at one moment; `memory_bytes` by what holds it (weights, kv)."""

    num_sessions: int
    kv: KvFacts
    memory_bytes: Mapping[str, int]
    device_s: float
    """Seconds that the device worked for us since the start."""
    num_stale: int
    num_dropped: int


def worker_gauges(role: str, facts: WorkerFacts) -> Iterable[Metric]:
    """One sample each, labelled with the worker's role."""
    yield _gauge("ssd_sessions", "Sessions open on the worker.", role, facts.num_sessions)
    yield from _kv(role, facts.kv)
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


def _kv(role: str, kv: KvFacts) -> Iterable[Metric]:
    free = kv.num_slots - kv.num_held
    yield _gauge("ssd_kv_slots_used", "KV slots that open sessions hold.", role, kv.num_held)
    yield _gauge("ssd_kv_slots_free", "KV slots that a new session may have.", role, free)
    yield _gauge("ssd_kv_slots_cached", "Free slots that hold a prefix.", role, kv.num_cached)
    counted = (
        ("ssd_prefix_hits", "Sessions that began with a known text's KV.", kv.num_prefix_hits),
        ("ssd_prefix_hit_tokens", "Tokens that no forward ran for.", kv.num_prefix_tokens),
        ("ssd_prefixes_evicted", "Kept prefixes that made room.", kv.num_evicted),
        ("ssd_kv_preemptions", "Sessions closed to make room for older ones.", kv.num_preempted),
    )
    for name, words, count in counted:
        yield _counter(name, words, role, count)


def _gauge(name: str, words: str, role: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=["role"])
    family.add_metric([role], value)
    return family


def _counter(name: str, words: str, role: str, value: float) -> CounterMetricFamily:
    family = CounterMetricFamily(name, words, labels=["role"])
    family.add_metric([role], value)
    return family
