"""`ssd chaos`: break a live service on this machine, over and over, and see who notices."""

import json
import os
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ssd.chaos import Case, ChaosReport, Fault, references, report_table, run_chaos
from ssd.cli.options import (
    INTERRUPTED_EXIT_CODE,
    Assignments,
    ConfigFile,
    configuration,
    one_sentence_errors,
)
from ssd.cli.run_dir import run_dir
from ssd.cli.serve import is_serving
from ssd.client import Client, Options
from ssd.config import SsdConfig
from ssd.core.errors import SsdError
from ssd.report.prompts import TALES

_READY_S = 120.0
_ROLES = {"verifier": 1, "drafter": 2}  # as registry_pb2.Role numbers them


def chaos(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long faults go on.")] = 5.0,
    streams: Annotated[int, typer.Option(min=1, help="Clients that stream all the time.")] = 6,
    seed: Annotated[int, typer.Option(help="Which faults, and when.")] = 0,
    max_tokens: Annotated[int, typer.Option(min=2, help="Tokens of each text.")] = 160,
    # Recovery runs rows in other batches; fp64 leaves no ties for their rounding to decide.
    dtype: Annotated[str, typer.Option(help="Number format of the target.")] = "fp64",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    config: ConfigFile = None,
    assignments: Assignments = None,
) -> None:
    """Kill, stop and starve the processes of a service while clients stream from it.

    Every token is compared with plain decoding. Exit status 1 when one differs.

    Example: ssd chaos --minutes 5
    """
    console = Console(stderr=True)
    quiet = ["logging.level=error", *(assignments or [])]
    flags = {"models.target_dtype": dtype, "coordinator.port": 0}
    with one_sentence_errors():
        settings = configuration(config, quiet, flags)
        try:
            report = _run(settings, minutes, streams, seed, max_tokens, console)
        except KeyboardInterrupt:
            console.print("stopped")
            raise typer.Exit(INTERRUPTED_EXIT_CODE) from None
    if as_json:
        print(json.dumps(report.as_json()))
    else:
        for table in report_table(report):
            Console().print(table)
    if not report.is_clean:
        raise typer.Exit(1)


def _run(
    settings: SsdConfig,
    minutes: float,
    streams: int,
    seed: int,
    max_tokens: int,
    console: Console,
) -> ChaosReport:
    # Ray is needed here and by few other commands; loading it takes seconds.
    from ssd.cluster.local_service import LocalService, local_service, wait_until_serving

    class LocalVictims:
        """The coordinator is ours to start again, the workers are Ray's."""

        def __init__(self, service: LocalService) -> None:
            self.address = service.address
            self._service = service

        def pid_of(self, role: str) -> int | None:
            if role == "coordinator":
                return self._service.launcher.child_named(role).pid
            try:
                with Client(self.address) as client:
                    workers = client.status().workers
            except SsdError:
                return None
            pids = [each.worker.process_id for each in workers if each.worker.role == _ROLES[role]]
            return pids[0] if pids and _is_running(pids[0]) else None

        def stand_up(self) -> None:
            wait_until_serving(self._is_whole, deadline_s=_READY_S)

        def _is_whole(self) -> bool:
            self._service.launcher.start_again(
                "coordinator"
            )  # a killed process ends a moment later
            if not is_serving(self.address, num_workers=len(self._service.workers)):
                return False
            with Client(self.address) as client:
                return all(
                    each.is_up and _is_running(each.worker.process_id)
                    for each in client.status().workers
                )

    with local_service(settings, run_dir=run_dir(), report=console.print) as service:
        wait_until_serving(
            lambda: is_serving(service.address, num_workers=len(service.workers)),
            deadline_s=_READY_S,
        )
        cases = references(service.address, _cases(max_tokens))
        with _bar(console) as bar:
            task = bar.add_task("chaos", total=60 * minutes)

            def progress(fault: Fault, spent_s: float) -> None:
                bar.update(task, completed=spent_s, description=fault.name)

            return run_chaos(
                LocalVictims(service),
                cases,
                seconds=60 * minutes,
                num_streams=streams,
                seed=seed,
                progress=progress,
            )


def _cases(max_tokens: int) -> list[Case]:
    return [
        Case(
            prompt.text,
            Options(max_tokens=max_tokens, temperature=temperature, seed=7, ignore_eos=True),
        )
        for temperature in (0.0, 1.0)
        for prompt in TALES
    ]


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<18}"), BarColumn(), TimeRemainingColumn(), console=console
    )


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
