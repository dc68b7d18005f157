"""The coordinator put together: registry, sessions, servers, health. No torch, no ray here."""

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import grpc.aio
import structlog
from grpc_health.v1 import health, health_pb2_grpc
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_reflection.v1alpha import reflection

from coordinator.admission import RequestDefaults
from coordinator.api_keys import ApiKeys
from coordinator.flight_records import BooksRecords
from coordinator.generation_servicer import GenerationServicer
from coordinator.journal import FileJournal, FsyncPolicy, JournalLimits
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
from ssd.wire.flight_file import COORDINATOR, FlightStore, flight_dir
from ssd.wire.ports import bind
from ssd.wire.security import Security

_SERVICE = generation_pb2.DESCRIPTOR.services_by_name["GenerationService"].full_name
_EXPIRE_EVERY_S = 1.0
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
    security = Security.of(config.security)
    stream = StreamTimeouts(
        timeouts.heartbeat_s, timeouts.peer_dead_s, timeouts.connect_s, security
    )
    vitals = health.aio.HealthServicer()
    journal = _journal(config)
    # Above all epochs of earlier lives, whatever a journal may have lost of them.
    floor = time.time_ns() // 1_000_000
    folder = flight_dir(config.logging.flight_dir)
    flights = BooksRecords(FlightStore(folder, config.logging.flight_tokens, COORDINATOR))
    table = SessionTable(_limits(config), epoch_floor=floor, journal=journal, flights=flights)
    coordinator_id = uuid.uuid4().hex if journal is None else journal.identity
    registry = Registry(table, stream, coordinator_id=coordinator_id)
    server = make_server(security, max_connection_age_s=config.coordinator.max_connection_age_s)
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
            keys=ApiKeys(
                config.security.api_keys, max_sessions=config.security.max_sessions_per_key
            ),
            stalled_client_s=config.coordinator.stalled_client_timeout_s,
        ),
        server,
    )
    registry_pb2_grpc.add_RegistryServiceServicer_to_server(
        RegistryServicer(registry, table, has_owners=config.security.api_keys is not None), server
    )
    health_pb2_grpc.add_HealthServicer_to_server(vitals, server)
    if config.coordinator.reflection:
        names = (_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
    address = bind(server, config.coordinator.host, config.coordinator.port, security)
    endpoint = ExitStack()
    registry.metrics_address = endpoint.enter_context(
        coordinator_metrics(config, metrics, registry)
    )
    for session in journal.sessions if journal is not None else ():
        table.restore(session)
    await server.start()
    await vitals.set("", HealthCheckResponse.SERVING)
    tasks = [
        asyncio.create_task(registry.expire()),
        asyncio.create_task(_report_readiness(table, vitals)),
        asyncio.create_task(_let_go_of_the_old(table)),
    ]
    if journal is not None:
        tasks.append(asyncio.create_task(journal.tidy()))
    log.info("coordinator ready", address=address, sessions=len(table.sessions))
    ready(address)
    await stop.wait()
    for task in tasks:
        task.cancel()
    await vitals.enter_graceful_shutdown()
    await _end_requests(server, table, within_s=timeouts.drain_s)
    await registry.close()
    endpoint.close()
    if tracing is not None:
        await asyncio.to_thread(tracing.close)
    await asyncio.gather(*tasks, return_exceptions=True)
    if journal is not None:
        journal.close()


async def _end_requests(server: grpc.aio.Server, table: SessionTable, *, within_s: float) -> None:
    """Take no new request, and leave once the running ones have ended.

    Other calls do not hold the process: a client that watches its health never hangs up.
    """
    ending = asyncio.create_task(server.stop(grace=within_s))
    while table.turns.num_running + table.turns.num_queued > 0 and not ending.done():
        await asyncio.wait([ending], timeout=_DRAIN_POLL_S)
    await server.stop(grace=_LAST_WORDS_S)
    await ending


async def _report_readiness(table: SessionTable, vitals: health.aio.HealthServicer) -> None:
    """The service is ready while a verifier is attached."""
    while True:
        status = (
            HealthCheckResponse.SERVING if table.seating.seats else HealthCheckResponse.NOT_SERVING
        )
        await vitals.set(_SERVICE, status)
        await table.seating.seats_changed.wait()
        table.seating.seats_changed.clear()


def _facts(table: SessionTable) -> TableFacts:
    openings = {reason.value: count for reason, count in dict(table.seating.moves).items()}
    return TableFacts(
        table.turns.num_running,
        table.turns.num_queued,
        len(table.seating.seats),
        table.reports.num_stale,
        openings,
    )


async def _let_go_of_the_old(table: SessionTable) -> None:
    while True:
        await asyncio.sleep(_EXPIRE_EVERY_S)
        table.expire()


def _journal(config: SsdConfig) -> FileJournal | None:
    """Raises ConfigError when the folder cannot be used."""
    coordinator = config.coordinator
    if coordinator.journal is None:
        return None
    limits = JournalLimits(
        fsync=FsyncPolicy(coordinator.journal_fsync),
        max_bytes=coordinator.journal_max_bytes,
        max_age_s=coordinator.journal_max_age_s,
        erase_s=coordinator.journal_erase_s,
    )
    return FileJournal(Path(coordinator.journal).expanduser(), limits)


def _limits(config: SsdConfig) -> TableLimits:
    coordinator = config.coordinator
    return TableLimits(
        max_sessions=coordinator.max_sessions,
        max_queue=coordinator.max_queue,
        reopen_s=config.timeouts.reopen_s,
        resume_s=config.timeouts.resume_s,
        keep_s=coordinator.keep_s,
    )


def _defaults(config: SsdConfig) -> RequestDefaults:
    return RequestDefaults(
        rule=config.speculation.rule,
        drafters=frozenset(config.speculation.drafters),
        mode=config.speculation.mode,
        allow_request_mode=config.speculation.allow_request_mode,
        max_tokens=config.coordinator.default_max_tokens,
        ordinal=config.coordinator.ordinal,
        peers=config.coordinator.peers,
        max_choices=config.coordinator.max_sessions + config.coordinator.max_queue,
    )
