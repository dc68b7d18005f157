"""A worker's process from ready to stopped: server, health, registration, engine.

load the model ──▶ serve (health SERVING) ──▶ register, again and again ──▶ stop: NOT_SERVING,
                                                                             server, engine
"""

import asyncio
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import grpc.aio
import structlog
from grpc_health.v1 import health, health_pb2_grpc
from grpc_health.v1.health_pb2 import HealthCheckResponse

from ssd.config import SsdConfig
from ssd.telemetry.metrics_endpoint import Registry, metrics_endpoint
from ssd.v1 import registry_pb2
from ssd.wire.channels import make_server
from ssd.wire.hello import Capabilities, encode_hello
from ssd.wire.ports import bind, reachable
from ssd.wire.registration import announce_leave, keep_registered
from ssd.wire.security import CLEAR, Security
from ssd.worker.stall_watch import Pulse, exit_when_engine_stalls, watch_for_stall

_LOOK_EVERY_S = 0.02
ENGINE_DIED_EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h
log = structlog.get_logger()


class HasRegistry(Protocol):
    """Figures that can be served."""

    registry: Registry


class WorkerService(Protocol):
    """What a drafter or a verifier puts into the process."""

    @property
    def metrics(self) -> HasRegistry: ...

    def add_to(self, server: grpc.aio.Server) -> None: ...

    def start(self) -> None: ...

    async def stop(self) -> None: ...

    @property
    def has_sessions(self) -> bool:
        """Whether anybody would miss it now."""
        ...

    @property
    def stall_limit_s(self) -> float:
        """Seconds without progress, while there is work, after which the engine hangs."""
        ...

    def pulses(self) -> tuple[Pulse, ...]:
        """What must move while there is work."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Who the worker is and where it stands; `core` is the CPU core of its engine thread."""

    name: str
    role: registry_pb2.Role
    host: str
    port: int
    node: str
    device: str
    core: int | None
    coordinators: tuple[str, ...]
    drain_s: float = 0.0
    security: Security = CLEAR


@dataclass(frozen=True, slots=True)
class MetricsPlace:
    """Where a process serves its figures; port 0 picks a free one."""

    host: str
    port: int


def metrics_place(port: int, config: SsdConfig) -> MetricsPlace | None:
    """None where the configuration wants no figures served."""
    return MetricsPlace(config.metrics.host, port) if config.metrics.enabled else None


async def host_worker(
    service: WorkerService,
    place: Place,
    me: Capabilities,
    *,
    stop: asyncio.Event,
    ready: Callable[[str], None],
    metrics: MetricsPlace | None = None,
) -> None:
    """Serve until `stop` is set; `ready(address)` once clients can connect.

    Raises:
        ConfigError: a port is taken.
    """
    with _metrics_of(service, metrics) as metrics_address:
        await _host(service, place, me, metrics_address, stop=stop, ready=ready)


async def _host(
    service: WorkerService,
    place: Place,
    me: Capabilities,
    metrics_address: str,
    *,
    stop: asyncio.Event,
    ready: Callable[[str], None],
) -> None:
    server = make_server(place.security)
    service.add_to(server)
    vitals = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(vitals, server)
    address = reachable(bind(server, place.host, place.port, place.security))
    service.start()
    await server.start()
    await vitals.set("", HealthCheckResponse.SERVING)
    card = _card(place, address, metrics_address, me)
    registering = asyncio.create_task(
        keep_registered(card, place.coordinators, report=_report, security=place.security)
    )
    watching = asyncio.create_task(
        watch_for_stall(service.pulses, service.stall_limit_s, stalled=exit_when_engine_stalls)
    )
    for task in (registering, watching):
        task.add_done_callback(_expect_cancelled)
    log.info("worker ready", worker=place.name, address=address, model=me.model_name)
    ready(address)
    await stop.wait()
    registering.cancel()
    watching.cancel()
    await vitals.set("", HealthCheckResponse.NOT_SERVING)
    await _let_sessions_go(service, card, place)
    await server.stop(grace=0)
    await service.stop()
    await asyncio.gather(registering, watching, return_exceptions=True)


@contextmanager
def _metrics_of(service: WorkerService, place: MetricsPlace | None) -> Iterator[str]:
    """The address under which others find the figures, empty where nobody can."""
    if place is None:
        yield ""
        return
    registry = service.metrics.registry
    with metrics_endpoint(registry, host=place.host, port=place.port) as address:
        yield reachable(address)


async def _let_sessions_go(service: WorkerService, card: registry_pb2.Worker, place: Place) -> None:
    """Tell the coordinators, then wait until the sessions have moved or finished."""
    give_up = asyncio.get_running_loop().time() + place.drain_s
    if not service.has_sessions or not place.drain_s:
        return
    await announce_leave(card, place.coordinators, place.security)
    log.info("worker drains", worker=place.name, drain_s=place.drain_s)
    while service.has_sessions and asyncio.get_running_loop().time() < give_up:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_EVERY_S)


def exit_when_engine_dies(error: BaseException) -> None:
    """A worker without an engine must not look alive: end the process, whatever else runs in it."""
    try:
        traceback.print_exception(error, file=sys.stderr)
        sys.stderr.flush()
    finally:  # words need memory, which it may have died of the want of
        os._exit(ENGINE_DIED_EXIT_CODE)


def _expect_cancelled(task: asyncio.Task[None]) -> None:
    """A worker that does not register any more is of no use to anybody, however alive it is."""
    if not task.cancelled() and (error := task.exception()) is not None:
        exit_when_engine_dies(error)


def coordinators_of(addresses: Sequence[str], host: str, port: int) -> tuple[str, ...]:
    """The configured coordinators, or the one of this configuration."""
    return tuple(addresses) or (f"{host}:{port}",)


def _card(
    place: Place, address: str, metrics_address: str, me: Capabilities
) -> registry_pb2.Worker:
    return registry_pb2.Worker(
        name=place.name,
        role=place.role,
        address=address,
        hello=encode_hello(me),
        node=place.node,
        device=place.device,
        process_id=os.getpid(),
        metrics_address=metrics_address,
    )


def _report(address: str, words: str) -> None:
    log.info("registration", coordinator=address, result=words)
