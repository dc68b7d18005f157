"""The verifier's process: load the target model, then serve until told to stop."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from ssd.config import SsdConfig
from ssd.telemetry.tracing import make_tracing
from ssd.v1 import registry_pb2
from ssd.wire.security import Security
from ssd.worker.host import Place, coordinators_of, host_worker, metrics_place
from ssd.worker.model import capabilities_of, load_target
from verifier_service.service import VerifierService, kv_slots_of, longest_text

log = structlog.get_logger()


def place_of(config: SsdConfig, *, name: str, node: str, device: str, core: int | None) -> Place:
    """Where a verifier of this configuration stands; a configured core goes before a given one."""
    configured = config.verifier.core
    return Place(
        name=name,
        role=registry_pb2.ROLE_VERIFIER,
        host=config.verifier.host,
        port=config.verifier.port,
        node=node,
        device=device,
        core=core if configured is None else configured,
        drain_s=config.timeouts.drain_s,
        coordinators=coordinators_of(
            config.cluster.coordinators, config.coordinator.host, config.coordinator.port
        ),
        security=Security.of(config.security),
    )


async def run_verifier(
    config: SsdConfig,
    place: Place,
    *,
    stop: asyncio.Event,
    ready: Callable[[str], None],
    environ: Mapping[str, str],
) -> None:
    """Serve until `stop` is set; `environ` says where spans go.

    Raises:
        ConfigError: the model cannot be served, or the port is taken.
    """
    target = load_target(config)
    config = _with_fixed_slots(config, kv_slots_of(config, target))
    me = replace(
        capabilities_of(target, dtype=config.models.target_dtype),
        context_len=longest_text(config, target),
    )
    tracing = make_tracing(environ, service="ssd-verifier", instance=place.name)
    service = VerifierService(config, target, me, core=place.core, tracing=tracing)
    await host_worker(
        service,
        place,
        me,
        stop=stop,
        ready=ready,
        metrics=metrics_place(config.metrics.verifier_port, config),
    )
    if tracing is not None:
        await asyncio.to_thread(tracing.close)


def _with_fixed_slots(config: SsdConfig, kv_slots: int) -> SsdConfig:
    """What is free changes; what was said to others must not."""
    log.info("verifier KV", slots=kv_slots)
    verifier = config.verifier.model_copy(update={"kv_slots": kv_slots})
    return config.model_copy(update={"verifier": verifier})
