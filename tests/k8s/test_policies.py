"""What holds for every pod, whoever writes the next one."""

import pytest

from tests.k8s.manifests import Document, Pod, of_kind, pods, started

RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@pytest.fixture
def all_pods(documents: tuple[Document, ...]) -> list[Pod]:
    found = pods(documents)
    assert len(found) >= 5, "coordinator, head, verifier, drafter, place"
    return found


def test_no_container_runs_as_root_or_may_become_it(all_pods: list[Pod]) -> None:
    for pod in all_pods:
        security = pod.spec["securityContext"]
        assert security["runAsNonRoot"] is True, pod.name
        assert security["runAsUser"] > 0, pod.name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, pod.name
        for container in pod.containers:
            assert container["securityContext"] == RESTRICTED, f"{pod.name} {container['name']}"


def test_no_pod_borrows_from_its_node(all_pods: list[Pod]) -> None:
    for pod in all_pods:
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod.spec), pod.name
        assert all("hostPath" not in volume for volume in pod.spec.get("volumes", [])), pod.name


def test_no_pod_holds_a_key_to_the_kubernetes_api(all_pods: list[Pod]) -> None:
    for pod in all_pods:
        assert pod.spec["automountServiceAccountToken"] is False, pod.name


def test_the_namespace_enforces_restricted_pods(documents: tuple[Document, ...]) -> None:
    (namespace,) = of_kind(documents, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_every_image_has_a_version(all_pods: list[Pod]) -> None:
    for pod in all_pods:
        for container in pod.containers:
            version = container["image"].rpartition("/")[2].partition(":")[2]
            assert version not in ("", "latest"), f"{pod.name}: {container['image']}"


def test_every_container_has_requests_and_limits(all_pods: list[Pod]) -> None:
    for pod in all_pods:
        for container in pod.containers:
            resources = container["resources"]
            assert {"cpu", "memory"} <= set(resources["requests"]), pod.name
            assert {"cpu", "memory"} <= set(resources["limits"]), pod.name


def test_every_container_that_serves_has_three_probes(all_pods: list[Pod]) -> None:
    for pod in all_pods:
        for container in pod.spec["containers"] if pod.serves else []:
            probes = {"startupProbe", "readinessProbe", "livenessProbe"}
            assert probes <= set(container), f"{pod.name} {container['name']}"


def test_grpc_probes_ask_ports_of_their_container(all_pods: list[Pod]) -> None:
    for pod in all_pods:
        for container in pod.containers:
            numbers = {port["containerPort"] for port in container.get("ports", [])}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                grpc = container.get(probe, {}).get("grpc")
                assert grpc is None or grpc["port"] in numbers, f"{pod.name} {probe}"


def test_every_deployment_and_stateful_set_has_one_disruption_budget(
    documents: tuple[Document, ...],
) -> None:
    for pod in pods(documents):
        budgets = [
            budget
            for budget in of_kind(documents, "PodDisruptionBudget")
            if budget["spec"]["selector"]["matchLabels"].items() <= pod.labels.items()
        ]
        is_set = pod.owner["kind"] in ("Deployment", "StatefulSet")
        assert len(budgets) <= 1, f"{pod.name}: an eviction fails where two budgets hold"
        assert len(budgets) == 1 or not (is_set or pod.group == "verifier"), pod.name


def test_selectors_choose_the_pods_they_mean(documents: tuple[Document, ...]) -> None:
    labels = [pod.labels for pod in pods(documents)]
    for document in documents:
        selector = document.get("spec", {}).get("selector")
        if document["kind"] in ("Service", "StatefulSet", "Deployment", "PodDisruptionBudget"):
            wanted = selector.get("matchLabels", selector)
            chosen = [each for each in labels if wanted.items() <= each.items()]
            assert len(chosen) == 1, f"{document['kind']} {document['metadata']['name']}"


def test_everything_lives_in_one_namespace(documents: tuple[Document, ...]) -> None:
    for document in documents:
        if document["kind"] != "Namespace":
            assert document["metadata"]["namespace"] == "ssd", document["metadata"]["name"]


def test_service_links_cannot_reach_our_settings(all_pods: list[Pod]) -> None:
    for pod in all_pods:
        assert pod.spec["enableServiceLinks"] is False, pod.name


def test_what_a_pod_mentions_exists(documents: tuple[Document, ...]) -> None:
    """Claims, accounts, ConfigMaps; `started` looks up each key that a variable takes."""
    there = {(each["kind"], each["metadata"]["name"]) for each in documents}
    for pod in pods(documents):
        assert ("ServiceAccount", pod.spec["serviceAccountName"]) in there
        for volume in pod.spec.get("volumes", []):
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                assert ("PersistentVolumeClaim", claim) in there
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in there
        for container in pod.containers:
            started(pod, container, documents)
            mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
            claimed = {
                each["metadata"]["name"]
                for each in pod.owner["spec"].get("volumeClaimTemplates", [])
            }
            assert mounted <= claimed | {each["name"] for each in pod.spec.get("volumes", [])}
