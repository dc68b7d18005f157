"""The coordinator's figures over HTTP, and where Prometheus finds everybody else's.

/targets is Prometheus's HTTP service discovery: one scrape configuration finds the coordinator and
every worker that registered, wherever it was placed.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from coordinator.registry import Registry
from ssd.config import SsdConfig
from ssd.telemetry.metrics_endpoint import metrics_endpoint
from ssd.telemetry.request_metrics import RequestMetrics
from ssd.v1 import registry_pb2
from ssd.wire.ports import reachable

_ROLES = {registry_pb2.ROLE_VERIFIER: "verifier", registry_pb2.ROLE_DRAFTER: "drafter"}


@contextmanager
def coordinator_metrics(
    config: SsdConfig, metrics: RequestMetrics, registry: Registry
) -> Iterator[str]:
    """Serve while the block runs; the address, empty where the configuration wants none.

    Raises:
        ConfigError: the port is taken.
    """
    if not config.metrics.enabled:
        yield ""
        return
    own: list[str] = []
    with metrics_endpoint(
        metrics.registry,
        host=config.metrics.host,
        port=config.metrics.coordinator_port,
        pages={"/targets": lambda: targets(own[0], registry.workers())},
    ) as address:
        own.append(reachable(address))
        yield own[0]


def targets(coordinator_address: str, workers: list[registry_pb2.Worker]) -> bytes:
    """The document that Prometheus asks for; workers without figures are left out."""
    groups = [_group(coordinator_address, role="coordinator", worker="coordinator")]
    groups += [
        _group(each.metrics_address, role=_ROLES[each.role], worker=each.name)
        for each in workers
        if each.metrics_address and each.role in _ROLES
    ]
    return json.dumps(groups).encode()


def _group(address: str, **labels: str) -> dict[str, object]:
    return {"targets": [address], "labels": labels}
