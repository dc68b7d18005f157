"""The drafter's process: load the draft model, then serve until told to stop."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from drafter_service.ngram_service import NgramService, ngram_capabilities
from drafter_service.service import DrafterService
from ssd.config import SsdConfig, draft_of, drafters_of
from ssd.core.drafter_kind import TRAITS, DrafterKind, DrafterTraits
from ssd.telemetry.tracing import make_tracing
from ssd.v1 import registry_pb2
from ssd.wire.security import Security
from ssd.worker.host import Place, coordinators_of, host_worker, metrics_place
from ssd.worker.model import capabilities_of, load_draft


def place_of(config: SsdConfig, *, name: str, node: str, device: str, core: int | None) -> Place:
    """Where a drafter of this configuration stands; a configured core goes before a given one."""
    configured = config.drafter.core
    return Place(
        name=name,
        role=registry_pb2.ROLE_DRAFTER,
        host=config.drafter.host,
        port=config.drafter.port,
        node=node,
        device=device,
        core=core if configured is None else configured,
        drain_s=config.timeouts.drain_s,
        coordinators=coordinators_of(
            config.cluster.coordinators, config.coordinator.host, config.coordinator.port
        ),
        security=Security.of(config.security),
    )


async def run_drafter(
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
    tracing = make_tracing(environ, service="ssd-drafter", instance=place.name)
    service: DrafterService | NgramService
    if draft_of(config) is None and DrafterKind.NGRAM in drafters_of(config):
        me = ngram_capabilities(config)
        service = NgramService(config, me, tracing=tracing)
    else:
        draft = load_draft(config)
        me = replace(
            capabilities_of(draft, dtype=config.models.draft_dtype), drafter=_traits(config)
        )
        service = DrafterService(config, draft, me, core=place.core, tracing=tracing)
    await host_worker(
        service,
        place,
        me,
        stop=stop,
        ready=ready,
        metrics=metrics_place(config.metrics.drafter_port, config),
    )
    if tracing is not None:
        await asyncio.to_thread(tracing.close)


def _traits(config: SsdConfig) -> DrafterTraits:
    kind = next(each for each in sorted(drafters_of(config)) if TRAITS[each].has_weights)
    return TRAITS[kind]
