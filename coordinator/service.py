"""The coordinator put together: registry, sessions, servers, health. No torch, no ray here."""

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import MappingProxyType

import grpc.aio
import structlog
from grpc_health.v1 import health, health_pb2_grpc
from grpc_health.v1.health_pb2 import HealthCheckResponse

from coordinator.admission import RequestDefaults
from coordinator.generation_servicer import GenerationServicer
from coordinator.metrics_pages import coordinator_metrics
from coordinator.registry import Registry
from coordinator.registry_servicer import RegistryServicer
from coordinator.request_telemetry import RequestTelemetry
from coordinator.session_table import SessionTable, TableLimits
from ssd.config import SsdConfig
from ssd.telemetry.request_metrics import RequestMetrics, TableFacts
from ssd.telemetry.tracing import make_tracing
from ssd.v1 import generation_pb2, generation_pb2_grpc, registry_pb2_grpc
from ssd.wire.channels import make_server
from ssd.wire.dialed_stream import StreamTimeouts
from ssd.wire.ports import bind

_SERVICE = generation_pb2.DESCRIPTOR.services_by_name["GenerationService"].full_name
NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})
log = structlog.get_logger()
_DRAIN_POLL_S = 0.05
_LAST_WORDS_S = 0.5  # for what a session that has ended still writes to its client


async def run_coordinator(
    config: SsdConfig,
    *,
    stop: asyncio.Event,
    ready: Callable[[str], None],
    environ: Mapping[str, str] = NO_ENVIRONMENT,
) -> None:
    """Serve until `stop` is set; `ready(address)` once clients can connect.

    Raises:
        ConfigError: a port is taken.
    """
    timeouts = config.timeouts
    stream = StreamTimeouts(timeouts.heartbeat_s, timeouts.peer_dead_s, timeouts.connect_s)
    vitals = health.aio.HealthServicer()
    table = SessionTable(_limits(config), epoch_floor=time.time_ns() // 1_000_000)
    registry = Registry(table, stream, coordinator_id=uuid.uuid4().hex)
    server = make_server()
    tracing = make_tracing(
        environ, service="ssd-coordinator", instance=f"coordinator-{config.coordinator.ordinal}"
    )
    metrics = RequestMetrics(lambda: _facts(table))
    generation_pb2_grpc.add_GenerationServiceServicer_to_server(
        GenerationServicer(
            table,
            registry,
            _defaults(config),
            telemetry=RequestTelemetry(metrics, tracing, logs_prompts=config.logging.prompts),
            stalled_client_s=config.coordinator.stalled_client_timeout_s,
        ),
        server,
    )
    registry_pb2_grpc.add_RegistryServiceServicer_to_server(
        RegistryServicer(registry, table), server
    )
    health_pb2_grpc.add_HealthServicer_to_server(vitals, server)
    address = bind(server, config.coordinator.host, config.coordinator.port)
    endpoint = ExitStack()
    registry.metrics_address = endpoint.enter_context(
        coordinator_metrics(config, metrics, registry)
    )
    await server.start()
    await vitals.set("", HealthCheckResponse.SERVING)
    expiring = asyncio.create_task(registry.expire())
    watching = asyncio.create_task(_report_readiness(table, vitals))
    log.info("coordinator ready", address=address)
    ready(address)
    await stop.wait()
    watching.cancel()
    expiring.cancel()
    await vitals.enter_graceful_shutdown()
    await _end_requests(server, table, within_s=timeouts.drain_s)
    await registry.close()
    endpoint.close()
    if tracing is not None:
        await asyncio.to_thread(tracing.close)
    await asyncio.gather(expiring, watching, return_exceptions=True)


async def _end_requests(server: grpc.aio.Server, table: SessionTable, *, within_s: float) -> None:
    """Take no new request, and leave once the running ones have ended.

    Other calls do not hold the process: a client that watches its health never hangs up.
    """
    ending = asyncio.create_task(server.stop(grace=within_s))
    while table.num_running + table.num_queued > 0 and not ending.done():
        await asyncio.wait([ending], timeout=_DRAIN_POLL_S)
    await server.stop(grace=_LAST_WORDS_S)
    await ending


async def _report_readiness(table: SessionTable, vitals: health.aio.HealthServicer) -> None:
    """The service is ready while a verifier is attached."""
    while True:
        status = HealthCheckResponse.SERVING if table.seats else HealthCheckResponse.NOT_SERVING
        await vitals.set(_SERVICE, status)
        await table.seats_changed.wait()
        table.seats_changed.clear()


def _facts(table: SessionTable) -> TableFacts:
    openings = {reason.value: count for reason, count in dict(table.moves).items()}
    return TableFacts(
        table.num_running, table.num_queued, len(table.seats), table.num_stale, openings
    )


def _limits(config: SsdConfig) -> TableLimits:
    coordinator = config.coordinator
    return TableLimits(
        max_sessions=coordinator.max_sessions,
        max_queue=coordinator.max_queue,
        reopen_s=config.timeouts.reopen_s,
        resume_s=config.timeouts.resume_s,
    )


def _defaults(config: SsdConfig) -> RequestDefaults:
    return RequestDefaults(
        rule=config.speculation.rule,
        mode=config.speculation.mode,
        allow_request_mode=config.speculation.allow_request_mode,
        max_tokens=config.coordinator.default_max_tokens,
        ordinal=config.coordinator.ordinal,
        max_choices=config.coordinator.max_sessions + config.coordinator.max_queue,
    )
