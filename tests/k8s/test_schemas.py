"""Every document is what its API takes, misspelt fields included."""

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from cloudcoil.models.prometheus_operator import v1 as prometheus

from tests.k8s.manifests import Document, crds, of_kind

VERSIONS = ("1.35", "1.36", "1.37")
"""Of Kubernetes: the three that get fixes."""

# Whose schema is elsewhere, and what checks them.
RAY = ("ray.io/v1", "RayCluster")
PROMETHEUS = {"PodMonitor", "PrometheusRule"}
CERT_MANAGER = ("cert-manager.io/v1", {"Certificate", "Issuer"})


def is_builtin(document: Document) -> bool:
    return document["apiVersion"].partition("/")[0].count(".") == 0 or document[
        "apiVersion"
    ].partition("/")[0].endswith(".k8s.io")


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_every_document(documents: tuple[Document, ...], version: str) -> None:
    for document in documents:
        if is_builtin(document):
            kubernetes_validate.validate(dict(document), version, strict=True)


def test_a_misspelt_field_is_refused(documents: tuple[Document, ...]) -> None:
    stateful_set = copy.deepcopy(dict(of_kind(documents, "StatefulSet")[0]))
    stateful_set["spec"]["template"]["spec"]["enableServiceLink"] = False
    with pytest.raises(kubernetes_validate.ValidationError, match="enableServiceLink"):
        kubernetes_validate.validate(stateful_set, VERSIONS[0], strict=True)


def test_everything_is_checked_by_somebody(documents: tuple[Document, ...]) -> None:
    for document in documents:
        api, kind = document["apiVersion"], document["kind"]
        assert (
            is_builtin(document)
            or (api, kind) == RAY
            or (api == "monitoring.coreos.com/v1" and kind in PROMETHEUS)
            or (api == CERT_MANAGER[0] and kind in CERT_MANAGER[1])
        ), f"nothing checks {api} {kind}"


# ── RayCluster ────────────────────────────────────────────────────────────────────────────────


@cache
def ray_cluster_schema() -> dict[str, Any]:
    folder = crds()
    if folder is None or not (folder / "ray.io_rayclusters.yaml").is_file():
        pytest.skip(
            "no schema of RayCluster: make k8s-check CRDS=DIR, with ray.io_rayclusters.yaml"
        )
    text = (folder / "ray.io_rayclusters.yaml").read_text()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    versions = yaml.load(text, Loader=loader)["spec"]["versions"]
    version = next(each for each in versions if each["name"] == "v1")
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    strict(schema)
    return schema


def strict(schema: dict[str, Any]) -> None:
    """Close every object that lists its keys, and let numbers be texts where Kubernetes does."""
    if schema.pop("x-kubernetes-int-or-string", False):
        schema.pop("type", None)
    if schema.get("properties") and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    for each in schema.get("properties", {}).values():
        strict(each)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            strict(schema[key])


def with_defaults(value: Any, schema: Mapping[str, Any]) -> Any:
    """As the API server would store it: nulls dropped, the schema's defaults filled in."""
    if isinstance(value, Mapping):
        properties = schema.get("properties", {})
        filled = {
            name: each["default"]
            for name, each in properties.items()
            if "default" in each and name not in value
        }
        given = {
            name: with_defaults(each, properties.get(name, {}))
            for name, each in value.items()
            if each is not None
        }
        return filled | given
    if isinstance(value, list):
        return [with_defaults(each, schema.get("items", {})) for each in value]
    return value


def check_ray_cluster(document: Document) -> None:
    schema = ray_cluster_schema()
    jsonschema.Draft202012Validator(schema).validate(with_defaults(document, schema))


def test_the_operator_takes_every_ray_cluster(documents: tuple[Document, ...]) -> None:
    clusters = of_kind(documents, "RayCluster")
    assert clusters
    for document in clusters:
        check_ray_cluster(document)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (("spec",), "rayversion"),
        (("spec", "workerGroupSpecs", 0), "label"),
        (("spec", "headGroupSpec", "template", "spec", "containers", 0), "readyProbe"),
    ],
)
def test_a_misspelt_field_of_a_ray_cluster_is_refused(
    documents: tuple[Document, ...], path: tuple[Any, ...], key: str
) -> None:
    document = copy.deepcopy(dict(of_kind(documents, "RayCluster")[0]))
    place: Any = document
    for step in path:
        place = place[step]
    place[key] = {}
    with pytest.raises(jsonschema.ValidationError, match=key):
        check_ray_cluster(document)


# ── Prometheus ────────────────────────────────────────────────────────────────────────────────


def check_prometheus(document: Document) -> None:
    """Read by the typed model, nothing may be lost."""
    model = getattr(prometheus, document["kind"]).model_validate(document)
    again = model.model_dump(by_alias=True, exclude_unset=True, mode="json")
    assert again == document


def test_the_prometheus_operator_takes_its_documents(documents: tuple[Document, ...]) -> None:
    for document in documents:
        if document["apiVersion"] == "monitoring.coreos.com/v1":
            check_prometheus(document)
