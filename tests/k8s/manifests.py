"""What an overlay amounts to: its documents, the pods they make, and what a pod's process is given.

A pod of a RayCluster is taken as its template; the operator adds the command `ray start`.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
K8S = CHECKOUT / "k8s"
OVERLAYS = tuple(sorted(path.name for path in (K8S / "overlays").iterdir() if path.is_dir()))
Document = Mapping[str, Any]
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


def tool(name: str) -> str | None:
    """A command that came with our packages, or that this machine has."""
    ours = Path(sys.executable).with_name(name)
    return str(ours) if ours.is_file() else shutil.which(name)


@cache
def build(folder: Path) -> tuple[Document, ...]:
    """What `kubectl apply -k FOLDER` would send; skips the test where there is no kubectl."""
    kubectl = tool("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    done = subprocess.run(
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that an object of the overlay makes; `group` is a RayCluster's part it belongs to."""

    owner: Document
    group: str
    labels: Mapping[str, str]
    spec: Document

    @property
    def name(self) -> str:
        metadata = self.owner["metadata"]
        return f"{self.owner['kind']}/{metadata['name']}/{self.group or 'pod'}"

    @property
    def containers(self) -> list[Document]:
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    @property
    def serves(self) -> bool:
        """Whether it runs for good: a Job's pod ends by itself."""
        return self.owner["kind"] != "Job"


def pods(documents: tuple[Document, ...]) -> list[Pod]:
    return [pod for document in documents for pod in _pods_of(document)]


def _pods_of(document: Document) -> Iterator[Pod]:
    spec = document.get("spec", {})
    match document["kind"]:
        case "StatefulSet" | "Deployment" | "DaemonSet" | "Job":
            yield _pod(document, "", spec["template"], {})
        case "RayCluster":
            cluster = {"ray.io/cluster": document["metadata"]["name"]}  # the operator's own label
            yield _pod(document, "head", spec["headGroupSpec"]["template"], cluster)
            for group in spec["workerGroupSpecs"]:
                yield _pod(document, group["groupName"], group["template"], cluster)


def _pod(owner: Document, group: str, template: Document, added: Mapping[str, str]) -> Pod:
    return Pod(owner, group, {**template["metadata"]["labels"], **added}, template["spec"])


def named(documents: tuple[Document, ...], kind: str, name: str) -> Document:
    found = [
        each for each in documents if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    assert len(found) == 1, f"{kind} {name}: {len(found)}"
    return found[0]


def of_kind(documents: tuple[Document, ...], kind: str) -> list[Document]:
    return [each for each in documents if each["kind"] == kind]


@dataclass(frozen=True, slots=True)
class Started:
    """What the kubelet would start: the command line, its environment, and its configuration."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    config: str | None  # the file at /etc/ssd/ssd.yaml


def started(pod: Pod, container: Document, documents: tuple[Document, ...]) -> Started:
    """The first replica's process; a secret's value is the word `secret`."""
    environment: dict[str, str] = {}
    for variable in container.get("env", []):
        value = variable.get("value")
        text = _value_from(variable["valueFrom"], pod, documents) if value is None else value
        environment[variable["name"]] = _expanded(text, environment)
    words = (*container.get("command", []), *container.get("args", []))
    command = tuple(_expanded(word, environment) for word in words)
    return Started(command, environment, _config(pod, container, documents))


def _expanded(text: str, environment: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda found: environment.get(found[1], found[0]), text)


def _value_from(source: Document, pod: Pod, documents: tuple[Document, ...]) -> str:
    match source:
        case {"fieldRef": {"fieldPath": "metadata.name"}}:
            return f"{pod.owner['metadata']['name']}-0"
        case {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}:
            return "0"
        case {"configMapKeyRef": {"name": name, "key": key}}:
            return str(named(documents, "ConfigMap", name)["data"][key])
        case {"secretKeyRef": _}:
            return "secret"
    raise AssertionError(f"nobody knows what {source} gives")


def _config(pod: Pod, container: Document, documents: tuple[Document, ...]) -> str | None:
    mounted = {each["mountPath"]: each["name"] for each in container.get("volumeMounts", [])}
    if "/etc/ssd" not in mounted:
        return None
    volume = next(each for each in pod.spec["volumes"] if each["name"] == mounted["/etc/ssd"])
    return str(named(documents, "ConfigMap", volume["configMap"]["name"])["data"]["ssd.yaml"])


def crds() -> Path | None:
    """The folder that CRDS names, where RayCluster's schema lies."""
    given = os.environ.get("CRDS", "")
    return (CHECKOUT / given) if given else None
