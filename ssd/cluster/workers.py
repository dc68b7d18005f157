"""What to place, what it reserves, and where it came to stand. Pure: no Ray here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ssd.core.errors import ConfigError

Bundle = dict[str, float]
"""Resources reserved together on one node, in Ray's words: {"GPU": 1.0}."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A worker to place. `actor_class` is `module:Class`; it is constructed with `config` alone."""

    name: str
    actor_class: str
    config: Mapping[str, Any] = field(default_factory=dict)  # JSON-able
    device: Literal["auto", "gpu", "cpu"] = "auto"
    labels: Mapping[str, str] = field(default_factory=dict)  # that its Ray node bears
    is_pinned: bool = True  # to a core of its own, on a CPU

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a worker needs a name")
        if self.actor_class.count(":") != 1:
            raise ValueError(f"actor_class must read module:Class, not {self.actor_class!r}")


@dataclass(frozen=True, slots=True)
class PlacedWorker:
    """A worker that serves."""

    name: str
    address: str  # host:port of its own server
    node_id: str
    device_id: str
    pid: int


def bundles_for(
    workers: Sequence[WorkerSpec],
    node_resources: Sequence[Mapping[str, float]],
    *,
    require_gpu: bool,
) -> list[Bundle]:
    """What each worker reserves, given the resources of each node.

    Raises:
        ConfigError: there are not enough of them.
    """
    if len({worker.name for worker in workers}) != len(workers):
        raise ConfigError(f"two workers share a name: {[worker.name for worker in workers]}")
    num_gpus = _count("GPU", node_resources)
    wants_gpu = [
        worker.device == "gpu" or (worker.device == "auto" and (require_gpu or num_gpus > 0))
        for worker in workers
    ]
    bundles = [{"GPU": 1.0} if wanted else {"CPU": 1.0} for wanted in wants_gpu]
    for resource in ("GPU", "CPU"):
        _expect_enough(resource, workers, bundles, _count(resource, node_resources))
    return bundles


def expect_labelled(
    workers: Sequence[WorkerSpec],
    bundles: Sequence[Bundle],
    nodes: Sequence[tuple[Mapping[str, str], Mapping[str, float]]],
) -> None:
    """Expect enough devices on the nodes (labels, resources) that the workers' labels leave.

    Raises:
        ConfigError: a label leaves too few.
    """
    wanted = {tuple(sorted(worker.labels.items())) for worker in workers if worker.labels}
    for labels in sorted(wanted):
        matching = [resources for borne, resources in nodes if set(labels) <= set(borne.items())]
        chosen = [index for index, each in enumerate(workers) if each.labels == dict(labels)]
        where = "what bears the Ray labels " + ",".join(f"{key}={value}" for key, value in labels)
        for resource in ("GPU", "CPU"):
            _expect_enough(
                resource,
                [workers[index] for index in chosen],
                [bundles[index] for index in chosen],
                _count(resource, matching),
                where=where,
            )


def _count(resource: str, node_resources: Sequence[Mapping[str, float]]) -> int:
    """Whole devices only: half a GPU here and half a GPU there hold no model."""
    return sum(int(resources.get(resource, 0)) for resources in node_resources)


def _expect_enough(
    resource: str,
    workers: Sequence[WorkerSpec],
    bundles: Sequence[Bundle],
    num_there: int,
    *,
    where: str = "the Ray cluster",
) -> None:
    names = [w.name for w, bundle in zip(workers, bundles, strict=True) if resource in bundle]
    if len(names) > num_there:
        raise ConfigError(
            f"{len(names)} workers ({', '.join(names)}) need a {resource} each and {where} "
            f"has {num_there}: add devices, or place fewer workers on a {resource}"
        )


def check_devices(placed: Sequence[PlacedWorker]) -> None:
    """Expect every worker on a device of its own.

    Raises:
        ConfigError: two of them share one.
    """
    owners: dict[tuple[str, str], str] = {}
    for worker in placed:
        owner = owners.setdefault((worker.node_id, worker.device_id), worker.name)
        if owner != worker.name:
            raise ConfigError(
                f"{owner} and {worker.name} share device {worker.device_id} of node "
                f"{worker.node_id}: each worker needs a device of its own"
            )
