"""Who may talk to whom: the flows of docs/architecture.md, and no others."""

from itertools import product

import pytest

from tests.k8s.manifests import Document, of_kind, pods
from tests.k8s.network import OURS, Peer, component, is_allowed, open_ports

CLIENT = Peer({}, {"kubernetes.io/metadata.name": "shop", "ssd.dev/client": "true"})
STRANGER = Peer({}, {"kubernetes.io/metadata.name": "elsewhere"})
NEIGHBOUR = component("something-else")
DNS = Peer({"k8s-app": "kube-dns"}, {"kubernetes.io/metadata.name": "kube-system"})
COORDINATOR, VERIFIER, DRAFTER = (component(n) for n in ("coordinator", "verifier", "drafter"))
HEAD, PLACE = component("ray-head"), component("place")
NODES = (HEAD, VERIFIER, DRAFTER)

FLOWS = [
    (CLIENT, COORDINATOR, 50050),
    (Peer({"ssd.dev/client": "true"}, OURS), COORDINATOR, 50050),
    (VERIFIER, COORDINATOR, 50050),
    (DRAFTER, COORDINATOR, 50050),
    (COORDINATOR, VERIFIER, 50051),
    (VERIFIER, DRAFTER, 50052),
    (PLACE, HEAD, 10001),
    *product(NODES, NODES, (6379, 6380, 6381, 10100, 10199)),
]
UNDER_NO_POLICY = {"health", "ui"}
"""Reached by the kubelet's probes, and by `kubectl port-forward`."""
SERVICE_PORTS = (50050, 50051, 50052, 10001)


@pytest.mark.parametrize(("source", "target", "port"), FLOWS)
def test_what_must_talk_can(
    documents: tuple[Document, ...], source: Peer, target: Peer, port: int
) -> None:
    assert is_allowed(documents, source, target, port)


def test_nothing_else_can(documents: tuple[Document, ...]) -> None:
    everybody = [CLIENT, STRANGER, NEIGHBOUR, COORDINATOR, VERIFIER, DRAFTER, HEAD, PLACE]
    targets = (COORDINATOR, VERIFIER, DRAFTER, HEAD)
    for source, target, port in product(everybody, targets, (*SERVICE_PORTS, 6379, 6380, 22)):
        if (source, target, port) not in FLOWS:
            assert not is_allowed(documents, source, target, port), (source, target, port)


def test_every_pod_may_ask_for_names(documents: tuple[Document, ...]) -> None:
    for pod in pods(documents):
        assert is_allowed(documents, Peer(pod.labels, OURS), DNS, 53), pod.name


def test_every_port_has_a_name_and_somebody_who_may_reach_it(
    documents: tuple[Document, ...],
) -> None:
    for pod in pods(documents):
        ports = [port for container in pod.containers for port in container.get("ports", [])]
        assert all(port["name"] for port in ports), pod.name
        numbers = {port["containerPort"] for port in ports}
        numbers -= {port["containerPort"] for port in ports if port["name"] in UNDER_NO_POLICY}
        if not of_kind(documents, "PodMonitor"):
            numbers -= {9464, 9465, 9466}  # metrics are for Prometheus, which is not there
        closed = numbers - open_ports(documents, Peer(pod.labels, OURS), iter(numbers))
        assert not closed, f"{pod.name}: {closed}"


def test_services_point_at_named_ports(documents: tuple[Document, ...]) -> None:
    for service in of_kind(documents, "Service"):
        for pod in pods(documents):
            if service["spec"]["selector"].items() <= pod.labels.items():
                names = {port["name"] for each in pod.containers for port in each.get("ports", [])}
                assert {port["targetPort"] for port in service["spec"]["ports"]} <= names
                assert all(port["name"] for port in service["spec"]["ports"])


def test_prometheus_reaches_the_figures_and_nothing_else(documents: tuple[Document, ...]) -> None:
    prometheus = Peer(
        {"app.kubernetes.io/name": "prometheus"}, {"kubernetes.io/metadata.name": "monitoring"}
    )
    is_there = bool(of_kind(documents, "PodMonitor"))
    for target, port in ((COORDINATOR, 9464), (VERIFIER, 9465), (DRAFTER, 9466)):
        assert is_allowed(documents, prometheus, target, port) is is_there
        assert not is_allowed(documents, STRANGER, target, port)
        for other in SERVICE_PORTS:
            assert not is_allowed(documents, prometheus, target, other)
