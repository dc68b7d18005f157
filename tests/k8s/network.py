"""The NetworkPolicies of an overlay, asked as a cluster would: may this pod reach that port?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.k8s.manifests import Document, of_kind

OURS = {"kubernetes.io/metadata.name": "ssd"}


@dataclass(frozen=True, slots=True)
class Peer:
    """One end of a connection: a pod's labels and those of its namespace."""

    labels: Mapping[str, str]
    namespace: Mapping[str, str]


def ours(**labels: str) -> Peer:
    return Peer({key.replace("_", "/"): value for key, value in labels.items()}, OURS)


def component(name: str) -> Peer:
    return Peer({"app.kubernetes.io/component": name}, OURS)


def is_allowed(documents: tuple[Document, ...], source: Peer, target: Peer, port: int) -> bool:
    """Both ends must allow it; an end outside our namespace has no policies of ours."""
    policies = of_kind(documents, "NetworkPolicy")
    leaves = source.namespace != OURS or _allows(policies, source, target, port, "egress")
    enters = target.namespace != OURS or _allows(policies, target, source, port, "ingress")
    return leaves and enters


def open_ports(documents: tuple[Document, ...], target: Peer, ports: Iterator[int]) -> set[int]:
    """Those of the ports that some rule opens to somebody."""
    rules = [
        rule
        for policy in _selecting(of_kind(documents, "NetworkPolicy"), target, "ingress")
        for rule in policy["spec"].get("ingress", [])
    ]
    return {port for port in ports if any(_has_port(rule, port) for rule in rules)}


def _allows(
    policies: list[Document], subject: Peer, other: Peer, port: int, direction: str
) -> bool:
    selecting = _selecting(policies, subject, direction)
    key = "to" if direction == "egress" else "from"
    return not selecting or any(
        _has_port(rule, port) and _has_peer(rule.get(key, []), other)
        for policy in selecting
        for rule in policy["spec"].get(direction, [])
    )


def _selecting(policies: list[Document], subject: Peer, direction: str) -> list[Document]:
    return [
        policy
        for policy in policies
        if direction.capitalize() in policy["spec"]["policyTypes"]
        and _matches(policy["spec"]["podSelector"], subject.labels)
    ]


def _has_port(rule: Document, port: int) -> bool:
    return any(each["port"] <= port <= each.get("endPort", each["port"]) for each in rule["ports"])


def _has_peer(peers: list[Document], other: Peer) -> bool:
    return any(
        _matches(peer.get("podSelector", {}), other.labels)
        and (
            _matches(peer["namespaceSelector"], other.namespace)
            if "namespaceSelector" in peer
            else other.namespace == OURS
        )
        for peer in peers
        if "ipBlock" not in peer
    )


def _matches(selector: Document, labels: Mapping[str, str]) -> bool:
    wanted = selector.get("matchLabels", {}).items() <= labels.items()
    return wanted and all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", [])
    )
