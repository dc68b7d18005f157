"""The whole service on one machine: Ray, the placed workers, the coordinator; `ssd serve`.

coordinator ─── child process, no torch, no ray
Ray ──┬─ drafter-0   core n-2      The engines' threads are pinned; streams and all else run
      └─ verifier-0  core n-1      wherever there is room.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ssd.cluster.launcher import Launcher
from ssd.cluster.processes import wait_until
from ssd.cluster.workers import PlacedWorker, WorkerSpec
from ssd.config import (
    SsdConfig,
    as_assignments,
    draft_of,
    drafters_of,
    resolve_model,
)
from ssd.core.drafter_kind import TRAITS, DrafterKind
from ssd.core.errors import ConfigError, Unavailable
from ssd.tokenizer.vocabulary import Vocabulary

_EXIT_S = 5.0  # from the end of its last session to the end of a process
_PLACE_DEADLINE_S = 600.0  # a large model loads slowly


@dataclass(frozen=True, slots=True)
class LocalService:
    """What runs, and where clients find it."""

    launcher: Launcher
    address: str
    workers: tuple[PlacedWorker, ...]

    def wait_until(self, is_serving: Callable[[], bool], *, deadline_s: float) -> None:
        """Ask until the service can take requests.

        Raises:
            Unavailable: it cannot by the deadline, or one of its processes has ended.
        """
        is_known = wait_until(
            lambda: is_serving() or self.launcher.ended_child() is not None, deadline_s
        )
        ended = self.launcher.ended_child()
        if ended is not None:
            raise Unavailable(
                f"{ended.name} ended with status {ended.exit_code} before the service could "
                "take requests; its last words stand above"
            )
        if not is_known:
            raise Unavailable(f"the service does not take requests after {deadline_s:g} s")


@contextmanager
def local_service(
    config: SsdConfig, *, run_dir: Path, report: Callable[[str], None]
) -> Iterator[LocalService]:
    """Start everything, and end it when the block does; `report` gets a line per stage.

    Raises:
        ConfigError: something in the configuration cannot be had; nothing is left running.
    """
    check_models(config)
    settled = _with_cores(_with_port(config))
    address = f"{settled.coordinator.host}:{settled.coordinator.port}"
    with Launcher(run_dir / str(settled.coordinator.port)) as launcher:
        report(f"starting the coordinator at {address}")
        command = [sys.executable, "-m", "coordinator", *as_assignments(settled)]
        grace_s = settled.timeouts.drain_s + _EXIT_S
        launcher.start_child("coordinator", command, grace_s=grace_s)
        if DrafterKind.NGRAM in drafters_of(settled) and settled.ngram.place == "process":
            report("starting the n-gram drafter")
            only = as_assignments(_drafting_alone(settled, DrafterKind.NGRAM))
            command = [sys.executable, "-m", "drafter_service", "--name", "ngram-0", *only]
            launcher.start_child("ngram", command, grace_s=grace_s)
        report("starting Ray")
        launcher.start_ray()
        report("placing drafter and verifier")
        workers = launcher.place(
            worker_specs(settled),
            require_gpu=settled.cluster.require_gpu,
            deadline_s=_PLACE_DEADLINE_S,
        )
        yield LocalService(launcher, address, tuple(workers))


def worker_specs(config: SsdConfig) -> list[WorkerSpec]:
    """The workers that a configuration asks for: per pair a verifier, and a drafter if a model
    drafts.

    Raises:
        ConfigError: what a drafter needs is not configured.
    """
    models = [kind for kind in sorted(drafters_of(config)) if TRAITS[kind].has_weights]
    return [
        spec
        for index in range(config.cluster.pairs)
        for spec in (
            *(
                _worker_spec(_drafting_alone(config, kind), "drafter", index, config.drafter.core)
                for kind in models
            ),
            _worker_spec(config, "verifier", index, config.verifier.core),
        )
    ]


def _drafting_alone(config: SsdConfig, kind: DrafterKind) -> SsdConfig:
    """A process drafts in one way: it is told that this is the only one."""
    speculation = config.speculation.model_copy(update={"drafters": (kind,)})
    return config.model_copy(update={"speculation": speculation})


def _worker_spec(config: SsdConfig, role: str, index: int, core: int | None) -> WorkerSpec:
    cluster = config.cluster
    prefix = f"{cluster.release}-" if cluster.release else ""
    name = f"{prefix}{role}-{index}"
    return WorkerSpec(
        name=name,
        actor_class=f"{role}_service.actor:{role.capitalize()}Actor",
        config={"name": name, "settings": config.model_dump(mode="json"), "core": core},
        device="cpu" if config.models.device == "cpu" else "auto",
        is_pinned=cluster.pin_cores,
        labels={cluster.role_label: role} if cluster.role_label else {},
    )


def check_models(config: SsdConfig) -> None:
    """Compare two local tokenizers id by id before anything is started.

    Raises:
        ConfigError: a folder is missing, or the tokenizers differ.
    """
    target = Path(resolve_model(config.models.target, role="target"))
    draft = Path(draft_of(config) or target)
    for role, path in (("target", target), ("draft", draft)):
        if _looks_like_path(str(path)) and not path.exists():
            raise ConfigError(f"there is no {role} model at {path}")
    files = (target / "tokenizer.json", draft / "tokenizer.json")
    if target == draft or not all(file.is_file() for file in files):
        return  # the workers compare what they loaded
    difference = Vocabulary.from_file(files[0]).first_difference(Vocabulary.from_file(files[1]))
    if difference is not None:
        raise ConfigError(f"the tokenizers differ: {difference}")


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or name.count("/") != 1


def _with_port(config: SsdConfig) -> SsdConfig:
    """Settle the coordinator's port, which the workers must know before they start.

    Raises:
        ConfigError: the configured port is taken.
    """
    host, port = config.coordinator.host, config.coordinator.port
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigError(f"port {port} of {host} is taken or not ours to take") from error
        settled = probe.getsockname()[1]
    coordinator = config.coordinator.model_copy(update={"port": settled})
    return config.model_copy(update={"coordinator": coordinator})


def _with_cores(config: SsdConfig) -> SsdConfig:
    """Give each engine a core of its own where there are two and nobody chose."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return config
    verifier_core = cores[-1] if config.verifier.core is None else config.verifier.core
    drafter_core = cores[-2] if config.drafter.core is None else config.drafter.core
    verifier = config.verifier.model_copy(update={"core": verifier_core})
    drafter = config.drafter.model_copy(update={"core": drafter_core})
    return config.model_copy(update={"verifier": verifier, "drafter": drafter})
