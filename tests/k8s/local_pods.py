"""The pods of an overlay as processes of this machine: their commands, arguments, environment.

What differs, because all share one network and one file system, and nothing else does:

- a port is a free one, and a name of a Service is 127.0.0.1: in arguments, settings and probes;
- /etc/ssd/ssd.yaml and /var/lib/ssd lie in a folder of ours, `python` and `ssd` are those that
  run the tests;
- the operator's part is played here: `ray start` from rayStartParams, labels and limits, the
  token, and the kubelet's: probes.
"""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import grpc
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ssd.cluster.children import Child, start_family
from tests.k8s.manifests import CHECKOUT, Document, Pod, pods, started

_HEAD_SERVICE = re.compile(r"[a-z0-9-]+-head-svc")
_COORDINATOR = re.compile(r"ssd-coordinator-(\d+)\.ssd-coordinators:50050")
_PORT_RANGE = 30
"""Worker processes of one Ray node here; a node runs two or three."""


def free_ports(count: int) -> Iterator[int]:
    """Ports in a row that were free a moment ago, below those that the kernel hands out."""
    base = 24_500 + (os.getpid() * 97) % 4_000  # above what Ray takes for its client servers
    while True:
        row = range(base, base + count)
        if all(_is_free(port) for port in row):
            return iter(row)
        base += count


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


@dataclass(slots=True)
class LocalPods:
    """Starts pods by their component's name, and ends what it started."""

    documents: tuple[Document, ...]
    folder: Path
    release: str = "v1"  # of which the workers are, where there are several
    ports: dict[tuple[str, int], int] = field(default_factory=dict)  # by component and port
    head_adds: dict[str, str] = field(default_factory=dict)  # environment, by the operator
    free: Iterator[int] = field(default_factory=lambda: free_ports(600))
    _running: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        self._running.close()

    def pod(self, component: str) -> Pod:
        return next(
            pod
            for pod in pods(self.documents)
            if pod.labels["app.kubernetes.io/component"] == component and self._is_mine(pod)
        )

    def _is_mine(self, pod: Pod) -> bool:
        name = pod.owner["metadata"]["name"]
        return pod.owner["kind"] not in ("RayCluster", "Job") or name.endswith(f"-{self.release}")

    def port(self, component: str, declared: int) -> int:
        """The free port that stands for one of a pod's ports."""
        key = (component, declared)
        if key not in self.ports:
            self.ports[key] = next(self.free)
        return self.ports[key]

    def address(self, component: str, declared: int) -> str:
        return f"127.0.0.1:{self.port(component, declared)}"

    # ── processes ─────────────────────────────────────────────────────────────────────────────

    def start(self, component: str) -> subprocess.Popen[bytes]:
        """The pod's own command; a signal reaches the process itself, as in a container."""
        pod = self.pod(component)
        (container,) = pod.spec["containers"]
        process = started(pod, container, self.documents)
        program, *words = [self._local(word) for word in process.command]
        entry = {"python": [], "ssd": ["-c", "from ssd.cli.main import app; app()"]}[program]
        if process.config is not None:
            file = self.folder / f"{component}.yaml"
            file.write_text(self._local_settings(process.config))
            words = [word.replace("/etc/ssd/ssd.yaml", str(file)) for word in words]
        command = [sys.executable, *entry, *words]
        popen = subprocess.Popen(
            command,
            env=self._environment(process.environment),
            stdin=subprocess.DEVNULL,
            stdout=self._log_file(component),
            stderr=subprocess.STDOUT,
        )
        self._running.callback(_end, popen)
        return popen

    def start_ray_node(self, component: str) -> Child:
        """What the operator makes of a group of the RayCluster; `head_adds` is for the head."""
        pod = self.pod(component)
        (container,) = pod.spec["containers"]
        process = started(pod, container, self.documents)
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *self._node_flags(pod)]
        given = {**process.environment, "RAY_AUTH_MODE": "token"}
        if pod.group == "head":
            given |= self.head_adds
            if "REDIS_PASSWORD" in given:  # as gcsFaultToleranceOptions has it written
                command.append(f"--redis-password={given['REDIS_PASSWORD']}")
        environment = self._environment(given)
        child = start_family(
            component, command, environment=environment, output=self._log_file(component)
        )
        self._running.callback(child.stop, 5.0)
        return child

    def _environment(self, given: Mapping[str, str]) -> dict[str, str]:
        inherited = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        here = {
            "PYTHONPATH": str(CHECKOUT),  # the image has it installed
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "PYTHONUNBUFFERED": "1",
        }
        token = {"RAY_AUTH_TOKEN": "5ec3e7" * 10} if "RAY_AUTH_MODE" in given else {}
        return {**inherited, **given, **here, **token}

    def _log_file(self, name: str) -> IO[bytes]:
        return self._running.enter_context((self.folder / f"{name}.log").open("wb"))

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _words_of_client_servers(self) -> str:
        """Of those that the head starts for drivers from elsewhere."""
        files = sorted(self.folder.glob("h/session_*/logs/ray_client_server*"))
        return "\n".join(f"{file.name}: {file.read_text()[-2000:]}" for file in files)

    def start_ray(self, *, within_s: float) -> list[Child]:
        """The RayCluster; its workers wait for the head, as the operator's init container does."""
        nodes = [self.start_ray_node("ray-head")]
        self.until("ray-head", "startupProbe", within_s=within_s)
        return nodes + [self.start_ray_node(component) for component in ("verifier", "drafter")]

    def finish(
        self, job: subprocess.Popen[bytes], nodes: Sequence[Child], *, within_s: float
    ) -> None:
        """Until the placing Job has done its work, tried again as its backoffLimit allows.

        A node that ends says why.
        """
        deadline = time.monotonic() + within_s
        retries = self.pod("place").owner["spec"]["backoffLimit"]
        while job.poll() != 0:
            if job.returncode is not None:
                assert retries > 0, self.log("place") + self._words_of_client_servers()
                retries, job = retries - 1, self.start("place")
            ended = [node.name for node in nodes if node.exit_code is not None]
            assert not ended, "\n".join(self.log(name)[-2000:] for name in ended)
            assert time.monotonic() < deadline, "\n".join(
                self.log(name)[-2000:] for name in ("place", *(node.name for node in nodes))
            )
            time.sleep(0.1)

    # ── what stands for a cluster's network ───────────────────────────────────────────────────

    def _local(self, text: str) -> str:
        text = _HEAD_SERVICE.sub("127.0.0.1", text)
        return text.replace(":10001", f":{self.port('ray-head', 10001)}")

    def _local_settings(self, config: str) -> str:
        settings = yaml.safe_load(
            _COORDINATOR.sub(lambda _: self.address("coordinator", 50050), config).replace(
                "/var/lib/ssd", str(self.folder)
            )
        )
        for section in settings.values():
            for key, value in section.items():
                if key == "port" or key.endswith("_port"):
                    section[key] = self.port(self._owner(value), value)
        return yaml.safe_dump(settings)

    def _owner(self, port: int) -> str:
        """The component whose pod declares a service's port."""
        owners = {
            pod.labels["app.kubernetes.io/component"]
            for pod in pods(self.documents)
            for container in pod.containers
            if port in [each["containerPort"] for each in container.get("ports", [])]
        }
        (owner,) = owners
        return owner

    def _node_flags(self, pod: Pod) -> list[str]:
        component = pod.labels["app.kubernetes.io/component"]
        group = self._group(pod)
        parameters = dict(group["rayStartParams"])
        limits = pod.spec["containers"][0]["resources"]["limits"]
        parameters.setdefault("num-cpus", str(limits["cpu"]))
        first = self.port(component, int(parameters.pop("min-worker-port")))
        for _ in range(_PORT_RANGE - 1):
            next(self.free)
        parameters.pop("max-worker-port")
        parameters |= {
            "min-worker-port": str(first),
            "max-worker-port": str(first + _PORT_RANGE - 1),
        }
        for name in ("node-manager-port", "object-manager-port", "ray-client-server-port"):
            if name in parameters:
                parameters[name] = str(self.port(component, int(parameters[name])))
        # Its own, as in a pod: two nodes that start together would take the same socket. And short.
        temporary = self.folder / pod.group[:1]
        head = self.port("ray-head", 6379)
        flags = (
            ["--head", f"--port={head}"] if pod.group == "head" else [f"--address=127.0.0.1:{head}"]
        )
        if group.get("labels"):
            flags.append("--labels=" + ",".join(f"{k}={v}" for k, v in group["labels"].items()))
        return [*flags, "--block", f"--temp-dir={temporary}", *_as_flags(parameters)]

    def _group(self, pod: Pod) -> Document:
        spec = pod.owner["spec"]
        if pod.group == "head":
            head: Document = spec["headGroupSpec"]
            return head
        return next(each for each in spec["workerGroupSpecs"] if each["groupName"] == pod.group)

    # ── the kubelet ───────────────────────────────────────────────────────────────────────────

    def probe(self, component: str, name: str) -> bool:
        """Whether a pod's gRPC probe passes."""
        grpc_probe = self.pod(component).spec["containers"][0][name]["grpc"]
        address = self.address(component, grpc_probe["port"])
        request = health_pb2.HealthCheckRequest(service=grpc_probe.get("service", ""))
        try:
            with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
                stub: Any = health_pb2_grpc.HealthStub(channel)  # its stubs know no methods
                answer = stub.Check(request, timeout=1)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def until(self, component: str, name: str, *, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while not self.probe(component, name):
            assert time.monotonic() < deadline, (
                f"{component} {name}:\n{self.log(component)[-3000:]}"
            )
            time.sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _as_flags(parameters: Mapping[str, str]) -> list[str]:
    """As the operator writes them: `true` is a switch, `false` leaves one out."""
    flags = []
    for name, value in parameters.items():
        if value == "true":
            flags.append(f"--{name}")
        elif value != "false" or name == "include-dashboard":
            flags.append(f"--{name}={value}")
    return flags
