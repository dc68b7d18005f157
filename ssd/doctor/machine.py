"""This machine: packages, devices, memory, files, ports, and the models that are configured."""

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from ssd.config import SsdConfig, draft_of, resolve_model
from ssd.core.errors import SsdError
from ssd.doctor.check import Check, fail, ok, warn
from ssd.tokenizer.vocabulary import Vocabulary

_PROBE_S = 60.0
_PROBE = (
    "import json, torch; n = torch.cuda.device_count(); "
    "print(json.dumps([torch.__version__, [torch.cuda.get_device_name(i) for i in range(n)]]))"
)
_BYTES = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2}
_GIB = 2**30
_REQUIREMENT = re.compile(r"^([A-Za-z0-9_.-]+)>=([0-9.]+)(?:; extra == .(\w+).)?$")
_OPTIONAL = {"report", "smollm", "dev"}


def machine_checks(config: SsdConfig) -> Iterator[Check]:
    """Everything that can be seen without a running service."""
    yield _packages()
    yield _cores(config)
    yield _devices(config)
    yield from _models(config)
    yield _shared_memory()
    yield _open_files()
    yield _port(config)


def _packages() -> Check:
    """Installed versions against what the project asks for."""
    try:
        wanted = metadata.requires("ssd-service") or []
    except metadata.PackageNotFoundError:
        return warn("packages", "ssd-service is not installed", "pip install -e .")
    problems = [problem for each in wanted if (problem := _package_problem(each))]
    if problems:
        return fail("packages", "; ".join(problems), "make setup")
    return ok("packages", f"Python {sys.version.split()[0]}, {len(wanted)} requirements looked at")


def _package_problem(requirement: str) -> str:
    match = _REQUIREMENT.match(requirement.replace(" ", "").replace(";extra==", "; extra == "))
    if match is None or match[3] in _OPTIONAL:
        return ""
    try:
        installed = metadata.version(match[1])
    except metadata.PackageNotFoundError:
        return f"{match[1]} is missing"
    if _numbers(installed) < _numbers(match[2]):
        return f"{match[1]} is {installed}, at least {match[2]} is needed"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version.partition("+")[0])[:3])


def _cores(config: SsdConfig) -> Check:
    count = len(os.sched_getaffinity(0))
    if count < 2 and config.models.device != "cuda":
        return warn(
            "cores", f"{count} CPU core", "give it two: drafter and verifier need one each at once"
        )
    return ok("cores", f"{count} CPU cores")


def _devices(config: SsdConfig) -> Check:
    """Asked in a process of its own: the command line never loads torch."""
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_PROBE_S,
            check=True,
        )
    except (subprocess.SubprocessError, OSError) as error:
        advice = "pip install 'ssd-service[engine]' on machines that run models"
        return fail("devices", f"torch does not load: {type(error).__name__}", advice)
    version, gpus = json.loads(probe.stdout.splitlines()[-1])
    found = f"torch {version}, " + (", ".join(gpus) if gpus else "no CUDA device")
    if not gpus and config.models.device == "cuda":
        return fail("devices", found, "set models.device to cpu, or install a driver")
    if not gpus and config.cluster.require_gpu:
        return fail("devices", found, "unset cluster.require_gpu, or install a driver")
    if len(gpus) == 1 and config.models.device != "cpu":
        return warn("devices", found, "two models on one device take turns: use two, or one on CPU")
    return ok("devices", found)


def _models(config: SsdConfig) -> Iterator[Check]:
    target = resolve_model(config.models.target, role="target")
    draft = draft_of(config)
    folders = {"target": Path(target)} | ({"draft": Path(draft)} if draft else {})
    missing = [f"{role} {path}" for role, path in folders.items() if not path.exists()]
    if missing:
        advice = "name a folder that exists; a name on the hub is looked up when it is loaded"
        yield warn("models", f"not on this machine: {', '.join(missing)}", advice)
        return
    yield ok("models", ", ".join(f"{role} {path}" for role, path in folders.items()))
    yield _memory(config, folders)
    yield _tokenizers(folders)


def _memory(config: SsdConfig, folders: dict[str, Path]) -> Check:
    """Weights as they lie, scaled to the configured format from four bytes a number at most."""
    dtypes = {"target": config.models.target_dtype, "draft": config.models.draft_dtype}
    needed = sum(
        file.stat().st_size * max(_BYTES[dtypes[role]] / 4, 1.0)
        for role, folder in folders.items()
        for file in folder.glob("*.safetensors")
    )
    available = _available_bytes()
    found = f"{available / _GIB:.1f} GiB available, weights take {needed / _GIB:.2f} GiB"
    if available < needed:
        return fail("memory", found, "use a smaller model or dtype, or free memory")
    if available < 2 * needed + _GIB:
        return warn("memory", found, "loading holds weights twice for a moment; free memory")
    return ok("memory", found)


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _tokenizers(folders: dict[str, Path]) -> Check:
    files = [folder / "tokenizer.json" for folder in folders.values()]
    if len(files) < 2 or not all(file.is_file() for file in files):
        return ok("tokenizers", "nothing to compare here; the workers compare what they load")
    try:
        difference = Vocabulary.from_file(files[0]).first_difference(Vocabulary.from_file(files[1]))
    except SsdError as error:
        return fail("tokenizers", str(error), "check the models' tokenizer.json")
    if difference is not None:
        return fail("tokenizers", f"they differ: {difference}", "use a draft of the same family")
    return ok("tokenizers", "equal, id by id")


def _shared_memory() -> Check:
    free = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else 0
    found = f"{free / _GIB:.2f} GiB free in /dev/shm"
    if free < _GIB / 8:
        return warn("shared memory", found, "Ray wants some: --shm-size=256m for a container")
    return ok("shared memory", found)


def _open_files() -> Check:
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit < 1024:
        return warn("open files", f"{limit} at most", f"ulimit -n {min(most, 65536)}")
    return ok("open files", f"{limit} at most")


def _port(config: SsdConfig) -> Check:
    host, port = config.coordinator.host, config.coordinator.port
    if port == 0:
        return ok("port", "any free one")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if _answers(host, port):
                return ok("port", f"{port} of {host} is in use; see coordinator")
            words = f"{port} of {host}: {error.strerror}"
            return fail("port", words, "set coordinator.port to another, 0 for any")
    return ok("port", f"{port} of {host} is free")


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False
