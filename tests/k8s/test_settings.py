"""Every flag, variable and setting in a manifest exists in the program, and they fit together."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import ray
from ray.scripts.scripts import start as ray_start

from ssd.config import LoadedConfig, load_config
from tests.k8s.manifests import (
    CHECKOUT,
    Document,
    Pod,
    Started,
    named,
    of_kind,
    pods,
    started,
)

# Not ours; each is read by what its name says.
FOREIGN = {"HOME", "POD_NAME", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HF_HOME"} | {
    "HF_TOKEN",
    "REDIS_PASSWORD",
    "JAEGER_LISTEN_HOST",
    "TARGET",  # of the pair of models, for the shell and for other variables
    "DRAFT",
}
OURS = {"ssd-coordinator", "ssd-worker"}
_EXIT_S = 5  # from the end of the last session to the end of the process


def all_started(documents: tuple[Document, ...]) -> list[tuple[str, Document, Started]]:
    return [
        (f"{pod.name} {container['name']}", container, started(pod, container, documents))
        for pod in pods(documents)
        for container in pod.containers
    ]


def program_of(command: tuple[str, ...]) -> tuple[str, ...] | None:
    """The part of a command line before its flags, if it is one of our programs."""
    match command:
        case ("python", "-m", module, *_):
            return ("-m", module)
        case ("ssd", subcommand, *_):
            return ("ssd", subcommand)
    return None


def commands_beside(container: Document) -> list[tuple[str, ...]]:
    """What the kubelet runs in a container besides its own command: probes, and before the end."""
    probes = [container.get(f"{kind}Probe", {}) for kind in ("startup", "readiness", "liveness")]
    run = [*probes, container.get("lifecycle", {}).get("preStop", {})]
    return [tuple(each["exec"]["command"]) for each in run if "exec" in each]


@cache
def flags_of(program: tuple[str, ...]) -> frozenset[str]:
    """The flags in a program's own help."""
    entry = program if program[0] == "-m" else ("-c", "from ssd.cli.main import app; app()")
    words = (*entry, *program[1:]) if program[0] == "ssd" else entry
    help_text = subprocess.run(
        [sys.executable, *words, "--help"],
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return frozenset(re.findall(r"--[a-z][a-z-]*", help_text))


def test_every_flag_is_a_flag_of_the_program(documents: tuple[Document, ...]) -> None:
    checked = 0
    for name, container, each in all_started(documents):
        for command in (each.command, *commands_beside(container)):
            program = program_of(command)
            if program is not None:
                flags = {word.partition("=")[0] for word in command if word.startswith("--")}
                assert flags <= flags_of(program), name
                checked += 1
    assert checked >= 4, "coordinator, place, and what the workers run before they stop"


def test_every_command_is_known(documents: tuple[Document, ...]) -> None:
    """A program of ours, a shell that a test reads, or `ray start`, which the operator adds."""
    for name, container, each in all_started(documents):
        if container["image"].rpartition("/")[2].partition(":")[0] in OURS:
            is_shell = each.command[:1] == ("bash",)
            assert not each.command or is_shell or program_of(each.command), name


def test_no_placeholder_is_left(documents: tuple[Document, ...]) -> None:
    for name, _, each in all_started(documents):
        for text in (*each.command, *each.environment.values()):
            assert "$(" not in text, f"{name}: {text}"


@cache
def words_of_ray() -> bytes:
    """What Ray's compiled core mentions, the names of its settings among it."""
    return (Path(ray.__file__).parent / "_raylet.so").read_bytes()


def is_setting_of_ray(variable: str) -> bool:
    name = variable.removeprefix("RAY_").encode()
    return variable.startswith("RAY_") and (name in words_of_ray())


def test_every_variable_is_read_by_something(documents: tuple[Document, ...]) -> None:
    for name, _, each in all_started(documents):
        for variable in each.environment:
            known = variable in FOREIGN or is_setting_of_ray(variable)
            assert known or variable.startswith(("SSD_", "OTEL_")), f"{name}: {variable}"


def test_a_setting_that_ray_does_not_have_is_found() -> None:
    assert is_setting_of_ray("RAY_worker_niceness")
    assert not is_setting_of_ray("RAY_worker_nicenes_")


def test_every_parameter_of_ray_start_exists(documents: tuple[Document, ...]) -> None:
    options = {word for option in ray_start.params for word in option.opts}
    for cluster in of_kind(documents, "RayCluster"):
        spec = cluster["spec"]
        for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
            assert {f"--{name}" for name in group["rayStartParams"]} <= options


def test_the_operator_would_set_no_switch_to_false(documents: tuple[Document, ...]) -> None:
    """It takes "false" for "leave the switch out", whatever the switch defaults to."""
    for cluster in of_kind(documents, "RayCluster"):
        spec = cluster["spec"]
        for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
            for name, value in group["rayStartParams"].items():
                assert value != "false" or name == "include-dashboard", name


def loaded(each: Started, folder: Path) -> LoadedConfig:
    assert each.config is not None
    file = folder / "ssd.yaml"
    file.write_text(each.config)
    return load_config(file=file, environment=each.environment, overrides={})


def of_component(documents: tuple[Document, ...], component: str) -> tuple[Pod, Started]:
    pod = next(
        pod for pod in pods(documents) if pod.labels["app.kubernetes.io/component"] == component
    )
    return pod, started(pod, pod.spec["containers"][0], documents)


def ports(pod: Pod) -> dict[str, int]:
    (container,) = pod.spec["containers"]
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def test_every_configuration_is_taken_by_the_program(
    documents: tuple[Document, ...], tmp_path: Path
) -> None:
    configured = [each for _, _, each in all_started(documents) if each.config is not None]
    assert len(configured) == 4, "coordinator, place, verifier and drafter"
    for each in configured:
        loaded(each, tmp_path)


def test_the_coordinator_listens_where_its_pod_says(
    documents: tuple[Document, ...], tmp_path: Path
) -> None:
    pod, process = of_component(documents, "coordinator")
    config = loaded(process, tmp_path).config
    assert ports(pod) == {
        "grpc": config.coordinator.port,
        "metrics": config.metrics.coordinator_port,
    }
    assert config.coordinator.host == config.metrics.host == "0.0.0.0"


def test_the_journal_lies_on_a_volume_of_the_replica(
    documents: tuple[Document, ...], tmp_path: Path
) -> None:
    pod, process = of_component(documents, "coordinator")
    journal = loaded(process, tmp_path).config.coordinator.journal
    (claim,) = pod.owner["spec"]["volumeClaimTemplates"]
    (container,) = pod.spec["containers"]
    (folder,) = (
        mount["mountPath"]
        for mount in container["volumeMounts"]
        if mount["name"] == claim["metadata"]["name"]
    )
    assert journal is not None
    assert Path(folder) in Path(journal).parents


def test_several_coordinators_know_one_another(
    documents: tuple[Document, ...], tmp_path: Path
) -> None:
    _, process = of_component(documents, "coordinator")
    num_peers = len(loaded(process, tmp_path).config.coordinator.peers)
    replicas = named(documents, "StatefulSet", "ssd-coordinator")["spec"]["replicas"]
    assert num_peers == (replicas if replicas > 1 else 0)


def test_the_workers_listen_where_their_pods_say(
    documents: tuple[Document, ...], tmp_path: Path
) -> None:
    _, process = of_component(documents, "place")
    config = loaded(process, tmp_path).config
    verifier = ports(of_component(documents, "verifier")[0])
    drafter = ports(of_component(documents, "drafter")[0])
    assert (verifier["grpc"], verifier["metrics"]) == (
        config.verifier.port,
        config.metrics.verifier_port,
    )
    assert (drafter["grpc"], drafter["metrics"]) == (
        config.drafter.port,
        config.metrics.drafter_port,
    )
    assert config.verifier.host == config.drafter.host == config.metrics.host == "0.0.0.0"


def test_the_workers_register_with_every_coordinator(
    documents: tuple[Document, ...], tmp_path: Path
) -> None:
    _, process = of_component(documents, "place")
    stateful_set = named(documents, "StatefulSet", "ssd-coordinator")
    service = stateful_set["spec"]["serviceName"]
    assert named(documents, "Service", service)["spec"]["publishNotReadyAddresses"] is True
    expected = [
        f"ssd-coordinator-{ordinal}.{service}:50050"
        for ordinal in range(stateful_set["spec"]["replicas"])
    ]
    assert list(loaded(process, tmp_path).config.cluster.coordinators) == expected


def test_every_worker_has_a_node_that_bears_its_role(
    documents: tuple[Document, ...], tmp_path: Path
) -> None:
    _, process = of_component(documents, "place")
    cluster = loaded(process, tmp_path).config.cluster
    (ray_cluster,) = of_kind(documents, "RayCluster")
    assert cluster.release == ray_cluster["metadata"]["name"]
    groups = {each["groupName"]: each for each in ray_cluster["spec"]["workerGroupSpecs"]}
    assert set(groups) == {"verifier", "drafter"}
    assert cluster.role_label is not None
    for role, group in groups.items():
        assert group["labels"] == {cluster.role_label: role}
        assert group["replicas"] == cluster.pairs, "a pair scales as a unit"


def test_gpus_are_asked_for_where_they_are_required(
    documents: tuple[Document, ...], tmp_path: Path
) -> None:
    _, process = of_component(documents, "place")
    requires = loaded(process, tmp_path).config.cluster.require_gpu
    for role in ("verifier", "drafter"):
        pod, _ = of_component(documents, role)
        limits = pod.spec["containers"][0]["resources"]["limits"]
        assert ("nvidia.com/gpu" in limits) is requires


def test_only_workers_get_a_gpu(documents: tuple[Document, ...]) -> None:
    for pod in pods(documents):
        for container in pod.containers:
            has_gpu = "nvidia.com/gpu" in container["resources"]["limits"]
            assert not has_gpu or pod.group in ("verifier", "drafter"), pod.name


def test_a_pod_outlives_the_drain_of_its_sessions(
    documents: tuple[Document, ...], tmp_path: Path
) -> None:
    pod, process = of_component(documents, "coordinator")
    (container,) = pod.spec["containers"]
    pre_stop_s = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain_s = loaded(process, tmp_path).config.timeouts.drain_s
    assert pod.spec["terminationGracePeriodSeconds"] >= pre_stop_s + drain_s + _EXIT_S


@pytest.mark.parametrize("role", ["verifier", "drafter"])
def test_a_worker_leaves_before_ray_kills_it(documents: tuple[Document, ...], role: str) -> None:
    """Its sessions may finish there: it waits as long as a coordinator does."""
    pod, process = of_component(documents, role)
    (container,) = pod.spec["containers"]
    (command,) = (each for each in commands_beside(container) if each[:2] == ("ssd", "drain"))
    assert "--config=/etc/ssd/ssd.yaml" in command
    assert process.config is not None, "which is where the coordinators are named"
    assert "--here" in command
    if role == "verifier":  # nobody waits for a drafter
        (wait_s,) = (float(word[9:]) for word in command if word.startswith("--wait-s="))
        assert pod.spec["terminationGracePeriodSeconds"] >= wait_s + _EXIT_S


def test_an_encrypted_port_is_asked_by_a_probe_that_can(
    documents: tuple[Document, ...],
) -> None:
    """The kubelet speaks no TLS; and an open port alone says nothing of what is behind it."""
    for name, container, each in all_started(documents):
        is_ours = container["name"] in ("coordinator", "verifier", "drafter")
        if is_ours and "SSD_SECURITY__TLS_CERT" in each.environment:
            ports = {port["containerPort"] for port in container["ports"]}
            asked = [
                words for words in commands_beside(container) if words[:2] == ("ssd", "health")
            ]
            assert asked, name
            for words in asked:
                address = words[words.index("--address") + 1]
                assert int(address.rpartition(":")[2]) in ports, name
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert not (is_ours and "tcpSocket" in container.get(probe, {})), name


def test_models_are_never_fetched_at_the_start_of_serving(
    documents: tuple[Document, ...], tmp_path: Path
) -> None:
    _, process = of_component(documents, "place")
    assert loaded(process, tmp_path).config.models.hub_offline is True


def test_another_configuration_rolls_the_coordinators(documents: tuple[Document, ...]) -> None:
    pod, process = of_component(documents, "coordinator")
    (volume,) = (each for each in pod.spec["volumes"] if each["name"] == "config")
    name = volume["configMap"]["name"]
    assert re.fullmatch(r"ssd-coordinator-[a-z0-9]{10}", name), "the hash of its content"
    assert process.config is not None


def test_the_settings_of_a_release_cannot_change(documents: tuple[Document, ...]) -> None:
    (ray_cluster,) = of_kind(documents, "RayCluster")
    suffix = ray_cluster["metadata"]["name"].removeprefix("ssd")
    assert named(documents, "ConfigMap", f"ssd-workers{suffix}")["immutable"] is True


def test_rays_version_is_the_pinned_one(documents: tuple[Document, ...]) -> None:
    pinned = re.search(r"^ray==(\S+)$", (CHECKOUT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    for cluster in of_kind(documents, "RayCluster"):
        assert cluster["spec"]["rayVersion"] == pinned[1]


def test_the_overlay_of_four_gpus_says_what_it_waits_for(documents: tuple[Document, ...]) -> None:
    for cluster in of_kind(documents, "RayCluster"):
        verifier = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
        num_gpus = int(verifier["resources"]["limits"].get("nvidia.com/gpu", 0))
        annotations = cluster["metadata"].get("annotations", {})
        assert num_gpus <= 1 or "tensor-parallel" in annotations["ssd.dev/needs"]


@pytest.mark.parametrize("name", ["prefetch", "weights-are-there"])
def test_shell_scripts_of_manifests_parse(documents: tuple[Document, ...], name: str) -> None:
    scripts = [
        each.command[-1]
        for _, container, each in all_started(documents)
        if container["name"] == name
    ]
    for script in scripts:
        subprocess.run(["bash", "-n", "-c", script], check=True)
