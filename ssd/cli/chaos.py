"""`ssd chaos`: break a live service on this machine, over and over, and see who notices."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ssd.chaos import Case, ChaosReport, Fault, references, report_table, run_chaos
from ssd.cli.connection import client_of
from ssd.cli.options import (
    INTERRUPTED_EXIT_CODE,
    Assignments,
    ConfigFile,
    configuration,
    one_sentence_errors,
)
from ssd.cli.run_dir import run_dir
from ssd.cli.sampling_options import KeyFile
from ssd.client import Client, Options
from ssd.config import SsdConfig
from ssd.report.prompts import TALES

_RESUME_S = 60.0


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a run is to do."""

    seconds: float
    num_streams: int
    seed: int
    max_tokens: int


def chaos(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long faults go on.")] = 5.0,
    streams: Annotated[int, typer.Option(min=1, help="Clients that stream all the time.")] = 6,
    seed: Annotated[int, typer.Option(help="Which faults, and when.")] = 0,
    max_tokens: Annotated[int, typer.Option(min=2, help="Tokens of each text.")] = 160,
    # Recovery runs rows in other batches; fp64 leaves no ties for their rounding to decide.
    dtype: Annotated[str, typer.Option(help="Number format of the target.")] = "fp64",
    *,
    api_key_file: KeyFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    config: ConfigFile = None,
    assignments: Assignments = None,
) -> None:
    """Kill, stop and starve the processes of a service while clients stream from it.

    Every token is compared with plain decoding. Exit status 1 when one differs. Half of the
    requests are gone on with by their clients when a call breaks, the others are not.

    Example: ssd chaos --minutes 5
    """
    console = Console(stderr=True)
    quiet = ["logging.level=error", *(assignments or [])]
    flags = {"models.target_dtype": dtype, "coordinator.port": 0}
    with one_sentence_errors():
        settings = configuration(config, quiet, flags)
        try:
            plan = _Plan(60.0 * minutes, streams, seed, max_tokens)
            report = _run(settings, plan, api_key_file, console)
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


def _run(settings: SsdConfig, plan: _Plan, key_file: Path | None, console: Console) -> ChaosReport:
    # Ray is needed here and by few other commands; loading it takes seconds.
    from ssd.cli.chaos_victims import LocalVictims
    from ssd.cluster.local_service import local_service

    with local_service(settings, run_dir=run_dir(), report=console.print) as service:

        def connect() -> Client:
            return client_of(settings.security, service.address, key_file)

        victims = LocalVictims(service, connect, security=settings.security)
        victims.stand_up()
        cases = references(connect, _cases(plan.max_tokens))
        with _bar(console) as bar:
            task = bar.add_task("chaos", total=plan.seconds)

            def progress(fault: Fault, spent_s: float) -> None:
                bar.update(task, completed=spent_s, description=fault.name)

            return run_chaos(
                victims,
                cases,
                seconds=plan.seconds,
                num_streams=plan.num_streams,
                seed=plan.seed,
                progress=progress,
            )


def _cases(max_tokens: int) -> list[Case]:
    """Greedy and sampled texts, of clients that come back for the rest and of others."""
    return [
        Case(
            prompt.text,
            Options(
                max_tokens=max_tokens,
                temperature=temperature,
                seed=7,
                ignore_eos=True,
                resume_s=resume_s,
            ),
        )
        for prompt in TALES
        for temperature, resume_s in ((0.0, 0.0), (1.0, _RESUME_S), (1.0, 0.0), (0.0, _RESUME_S))
    ]


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<18}"), BarColumn(), TimeRemainingColumn(), console=console
    )
