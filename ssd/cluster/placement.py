"""Put workers on devices: one bundle, one device, one detached named actor each.

The driver stays for as long as this takes and leaves; Ray restarts an actor that dies, nobody calls
it afterwards. Everything is get-or-create: placing twice changes nothing. A placement that fails
takes back what it created, and nothing else.
"""

import importlib
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from ssd.cluster.device_group import core_indices, get_or_create_group, remove_group, wait_for_group
from ssd.cluster.driver import connected
from ssd.cluster.workers import (
    Bundle,
    PlacedWorker,
    WorkerSpec,
    bundles_for,
    check_devices,
    expect_labelled,
)
from ssd.core.errors import ConfigError, Unavailable

NAMESPACE = "ssd"
_ASK_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True)
class _Seat:
    """The bundle of one worker; `core` is None where the engine is not to be pinned."""

    group: PlacementGroup
    bundle_index: int
    has_gpu: bool
    core: int | None


def place(
    workers: Sequence[WorkerSpec],
    *,
    address: str,
    namespace: str = NAMESPACE,
    require_gpu: bool = False,
    token_path: Path | None = None,
    deadline_s: float = 300.0,
) -> list[PlacedWorker]:
    """Get or create the workers and wait until all of them serve.

    A worker takes a whole GPU where the cluster has any (`device="auto"`), otherwise a CPU, and
    then finds the index of its core in `config["core"]` unless one is configured.

    Raises:
        ConfigError: too few devices, two workers on one, or a worker that refuses its config.
        Unavailable: no cluster answers, or the workers do not serve by the deadline.
    """
    deadline = time.monotonic() + deadline_s
    classes = [_load(worker.actor_class) for worker in workers]
    with connected(address, namespace=namespace, token_path=token_path):
        bundles = _bundles(workers, require_gpu=require_gpu)
        with ExitStack() as undo:
            group = get_or_create_group(bundles, [worker.labels for worker in workers], undo)
            wait_for_group(group, deadline)
            cores = core_indices(group, bundles)
            seats = [
                _Seat(group, index, "GPU" in bundle, cores.get(index) if worker.is_pinned else None)
                for index, (worker, bundle) in enumerate(zip(workers, bundles, strict=True))
            ]
            actors = [
                _get_or_create_actor(worker, actor_class, seat, undo)
                for worker, actor_class, seat in zip(workers, classes, seats, strict=True)
            ]
            placed = _wait_for_workers(workers, actors, deadline)
            check_devices(placed)
            undo.pop_all()
    return placed


def wait_for_devices(
    workers: Sequence[WorkerSpec],
    *,
    address: str,
    require_gpu: bool = False,
    token_path: Path | None = None,
    wait_s: float,
) -> None:
    """Until a cluster that is still coming up has the devices that these workers need.

    Raises:
        ConfigError: it has too few of them after that time.
        Unavailable: no cluster answers after that time.
    """
    wait_by = time.monotonic() + wait_s
    with connected(address, namespace=NAMESPACE, token_path=token_path, listens_by=wait_by):
        while True:
            try:
                _bundles(workers, require_gpu=require_gpu)
            except ConfigError:
                if time.monotonic() > wait_by:
                    raise
                time.sleep(_ASK_AGAIN_S)
            else:
                return


def remove(
    *,
    address: str,
    namespace: str = NAMESPACE,
    token_path: Path | None = None,
    grace_s: float = 5.0,
) -> None:
    """Stop and kill every worker of the namespace and free its devices; harmless when repeated."""
    with connected(address, namespace=namespace, token_path=token_path):
        names = [
            entry["name"]
            for entry in ray.util.list_named_actors(all_namespaces=True)
            if entry["namespace"] == namespace
        ]
        actors = [ray.get_actor(name, namespace=namespace) for name in names]
        if actors:
            stopping: list[ray.ObjectRef] = [actor.stop.remote() for actor in actors]
            ray.wait(stopping, num_returns=len(stopping), timeout=grace_s)
        for actor in actors:
            ray.kill(actor, no_restart=True)
        remove_group()


def _bundles(workers: Sequence[WorkerSpec], *, require_gpu: bool) -> list[Bundle]:
    nodes = [(node["Labels"], node["Resources"]) for node in ray.nodes() if node["Alive"]]
    bundles = bundles_for(workers, [resources for _, resources in nodes], require_gpu=require_gpu)
    expect_labelled(workers, bundles, nodes)
    return bundles


def _get_or_create_actor(
    worker: WorkerSpec, actor_class: type, seat: _Seat, undo: ExitStack
) -> ActorHandle:
    try:
        return ray.get_actor(worker.name)
    except ValueError:
        actor = _create_actor(worker, actor_class, seat)
        undo.callback(_take_back, actor)
        return actor


def _take_back(actor: ActorHandle) -> None:
    """Without a connection Ray would start a cluster of its own here, to ask that."""
    if ray.is_initialized():
        ray.kill(actor, no_restart=True)


def _create_actor(worker: WorkerSpec, actor_class: type, seat: _Seat) -> ActorHandle:
    config = dict(worker.config)
    if seat.core is not None and config.get("core") is None:
        config["core"] = seat.core
    options = {
        "name": worker.name,
        "lifetime": "detached",
        "get_if_exists": True,
        "max_restarts": -1,
        "scheduling_strategy": PlacementGroupSchedulingStrategy(seat.group, seat.bundle_index),
    }
    if seat.has_gpu:
        options |= {"num_cpus": 0, "num_gpus": 1}
    else:
        # Ray leaves every GPU of the node visible to an actor that asked for none.
        options |= {"num_cpus": 1, "runtime_env": {"env_vars": {"CUDA_VISIBLE_DEVICES": ""}}}
    remote_class: Any = ray.remote(actor_class)
    return remote_class.options(**options).remote(config)


def _load(actor_class: str) -> type:
    module_name, _, class_name = actor_class.partition(":")
    try:
        return getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"there is no actor {actor_class}: {error}") from error


def _wait_for_workers(
    workers: Sequence[WorkerSpec], actors: Sequence[ActorHandle], deadline: float
) -> list[PlacedWorker]:
    names = [worker.name for worker in workers]
    addresses = _ask_all(names, [actor.address for actor in actors], deadline)
    devices = _ask_all(names, [actor.device for actor in actors], deadline)
    pids = _ask_all(names, [actor.pid for actor in actors], deadline)
    return [
        PlacedWorker(name, address, node_id, device_id, pid)
        for name, address, (node_id, device_id), pid in zip(
            names, addresses, devices, pids, strict=True
        )
    ]


def _ask_all(names: Sequence[str], methods: Sequence[Any], deadline: float) -> list[Any]:
    """The answers in order; the first worker to fail ends the wait for the others."""
    answers: dict[int, Any] = {}
    asked = {method.remote(): index for index, method in enumerate(methods)}
    while asked:
        answered, _ = ray.wait(list(asked), timeout=max(0.0, deadline - time.monotonic()))
        if not answered:
            late = ", ".join(names[index] for index in asked.values())
            raise Unavailable(f"these workers do not serve by the deadline: {late}")
        index = asked.pop(answered[0])
        try:
            answers[index] = _answer(names[index], answered[0])
        except ray.exceptions.ActorUnavailableError:  # Ray is restarting it
            time.sleep(_ASK_AGAIN_S)
            asked[methods[index].remote()] = index
    return [answers[index] for index in range(len(methods))]


def _answer(name: str, asked: ray.ObjectRef) -> Any:
    try:
        return ray.get(asked)
    except ray.exceptions.ActorUnavailableError:
        raise
    except (ray.exceptions.RayActorError, ray.exceptions.RayTaskError) as error:
        # Ray's message is a traceback of the worker; its last line is the worker's own sentence.
        reason = str(error).strip().splitlines()[-1]
        raise ConfigError(f"{name} cannot serve: {reason}") from error
