"""From two looks at what the processes serve to the figures that a person watches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ssd.core.errors import Unavailable
from ssd.telemetry.scraping import Scrape, scrape

_RESULTS = ("hit", "late", "key", "absent")


@dataclass(frozen=True, slots=True)
class Process:
    """One process and where its figures are."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All processes at one moment."""

    at_s: float
    scrapes: Mapping[str, Scrape]

    def total(self, name: str, **labels: str) -> float:
        """The sum over all processes of the samples with these labels."""
        return sum(each.total(name, **labels) for each in self.scrapes.values())


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """One drafter or verifier; `device_busy` is a share of the time between the looks."""

    name: str
    num_sessions: float
    device_busy: float
    kv_used: float
    kv_free: float
    memory_bytes: float
    num_stale: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What happened between two looks; a mean of nothing is 0."""

    num_running: float
    num_queued: float
    tokens_per_s: float
    requests_per_s: float
    first_token_s: float
    token_s: float
    speedup: float
    tokens_per_round: float
    acceptance: float
    lookups: Mapping[str, float]
    busy: float
    overlap: float
    draft_cost: float
    workers: Sequence[WorkerFigures]


def take_snapshot(processes: Sequence[Process], at_s: float) -> Snapshot:
    """Ask every process for its figures.

    Raises:
        Unavailable: one does not answer.
    """
    scrapes = {}
    for each in processes:
        try:
            scrapes[each.name] = scrape(each.address)
        except OSError as error:
            raise Unavailable(f"no figures of {each.name} at {each.address}: {error}") from error
    return Snapshot(at_s, scrapes)


def figures_between(before: Snapshot, now: Snapshot) -> Figures:
    """Rates from one look to the next."""

    def grown(name: str, **labels: str) -> float:
        # A process that restarted counts from 0 again.
        return max(now.total(name, **labels) - before.total(name, **labels), 0.0)

    def mean(name: str) -> float:
        return _ratio(grown(f"{name}_sum"), grown(f"{name}_count"))

    seconds = now.at_s - before.at_s
    lookups = grown("ssd_cache_lookups_total")
    return Figures(
        num_running=now.total("ssd_requests_running"),
        num_queued=now.total("ssd_requests_queued"),
        tokens_per_s=_ratio(grown("ssd_committed_tokens_total"), seconds),
        requests_per_s=_ratio(grown("ssd_requests_total"), seconds),
        first_token_s=mean("ssd_time_to_first_token_seconds"),
        token_s=mean("ssd_time_per_output_token_seconds"),
        speedup=_mean_gauge(now, "ssd_speedup_ratio"),
        tokens_per_round=_ratio(grown("ssd_committed_tokens_total"), grown("ssd_rounds_total")),
        acceptance=_ratio(grown("ssd_accepted_tokens_total"), grown("ssd_tested_tokens_total")),
        lookups={
            each: _ratio(grown("ssd_cache_lookups_total", result=each), lookups)
            for each in _RESULTS
        },
        busy=_mean_gauge(now, "ssd_verifier_busy_ratio"),
        overlap=_mean_gauge(now, "ssd_overlap_ratio"),
        draft_cost=_mean_gauge(now, "ssd_draft_cost_ratio"),
        workers=[
            _worker(name, scrapes, before.scrapes.get(name), seconds)
            for name, scrapes in now.scrapes.items()
            if "ssd_device_seconds_total" in scrapes.names
        ],
    )


def _worker(name: str, now: Scrape, before: Scrape | None, seconds: float) -> WorkerFigures:
    worked_s = now.total("ssd_device_seconds_total")
    if before is not None:
        worked_s = max(worked_s - before.total("ssd_device_seconds_total"), 0.0)
    return WorkerFigures(
        name=name,
        num_sessions=now.total("ssd_sessions"),
        device_busy=_ratio(worked_s, seconds),
        kv_used=now.total("ssd_kv_slots_used"),
        kv_free=now.total("ssd_kv_slots_free"),
        memory_bytes=now.total("ssd_memory_bytes"),
        num_stale=now.total("ssd_stale_messages_total"),
    )


def _mean_gauge(now: Snapshot, name: str) -> float:
    """Over the processes that have it."""
    values = [each.total(name) for each in now.scrapes.values() if name in each.names]
    return _ratio(sum(values), len(values))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
