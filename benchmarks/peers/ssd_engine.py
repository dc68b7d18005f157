"""This project's own service over gRPC: drafter on one core, verifier on the other."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from benchmarks.peers.engine import CHAINS, Answer, Drafting, Models, Task, decoded
from ssd.cli.serve import is_serving
from ssd.client import Client, Options
from ssd.cluster.local_service import local_service
from ssd.config import load_config, parse_assignments
from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, RoundRecord
from ssd.core.speculation_limits import SpeculationLimits

_READY_S = 180.0


class ServiceMode:
    """The running service in one of its modes; mode `sd` drafts as far as it is told to.

    `rounds` and `growth` are those of all answers so far.
    """

    def __init__(self, client: Client, mode: Mode) -> None:
        self.version = f"ssd-service {version('ssd-service')}"
        self.choices: tuple[Drafting, ...] = CHAINS if mode is Mode.SD else ()
        self.rounds: list[RoundRecord] = []
        self.growth: list[GrowthSpan] = []
        self._client, self._mode = client, mode

    def generate(self, task: Task) -> Answer:
        arrivals: list[tuple[float, int]] = []
        token_ids: list[int] = []
        began = time.perf_counter()
        generation = self._client.generate(task.prompt_ids, self._options(task))
        for piece in generation:
            if piece.token_ids:
                arrivals.append((time.perf_counter(), len(piece.token_ids)))
                token_ids.extend(piece.token_ids)
        total_s = time.perf_counter() - began
        self.rounds.extend(generation.completion.rounds)
        self.growth.extend(generation.completion.growth)
        return Answer(tuple(token_ids), total_s, *decoded(arrivals))

    def close(self) -> None:
        """The service ends with its block."""

    def _options(self, task: Task) -> Options:
        depth = None if task.drafting is None else task.drafting.num_tokens
        return Options(
            max_tokens=task.max_tokens,
            temperature=0.0,
            mode=self._mode,
            speculation=SpeculationLimits(max_depth=depth),
            include_rounds=True,
        )


@contextmanager
def serving(models: Models, assignments: Sequence[str]) -> Iterator[dict[Mode, ServiceMode]]:
    """Serve the pair on this machine for as long as the block runs; assignments are KEY=VALUE."""
    overrides: dict[str, object] = {
        "models.target": models.target,
        "models.draft": models.draft,
        "coordinator.port": 0,
        "drafter.sd_depth": max(each.num_tokens for each in CHAINS),
        "logging.level": "error",
        **parse_assignments(list(assignments)),
    }
    config = load_config(file=None, environment={}, overrides=overrides).config
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,
        local_service(config, run_dir=Path(folder), report=lambda line: None) as service,
    ):
        service.wait_until(
            lambda: is_serving(service.address, num_workers=len(service.workers)),
            deadline_s=_READY_S,
        )
        with Client(service.address) as client:
            yield {mode: ServiceMode(client, mode) for mode in Mode}
