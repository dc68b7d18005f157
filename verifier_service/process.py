"""The verifier's process: load the target model, then serve until told to stop."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from ssd.config import SsdConfig
from ssd.v1 import registry_pb2
from ssd.worker.host import Place, coordinators_of, host_worker, metrics_place
from ssd.worker.model import capabilities_of, load_target
from verifier_service.service import VerifierService, longest_text


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
        coordinators=coordinators_of(
            config.cluster.coordinators, config.coordinator.host, config.coordinator.port
        ),
    )


async def run_verifier(
    config: SsdConfig, place: Place, *, stop: asyncio.Event, ready: Callable[[str], None]
) -> None:
    """Serve until `stop` is set.

    Raises:
        ConfigError: the model cannot be served, or the port is taken.
    """
    target = load_target(config)
    me = replace(
        capabilities_of(target, dtype=config.models.target_dtype),
        context_len=longest_text(config, target),
    )
    service = VerifierService(config, target, me, core=place.core)
    await host_worker(
        service,
        place,
        me,
        stop=stop,
        ready=ready,
        metrics=metrics_place(config.metrics.verifier_port, config),
    )
