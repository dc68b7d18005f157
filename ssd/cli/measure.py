"""`ssd measure`: what speculation does on one's own prompts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ssd.cli.connection import connect
from ssd.cli.options import (
    INTERRUPTED_EXIT_CODE,
    Assignments,
    ConfigFile,
    configuration,
    one_sentence_errors,
)
from ssd.cli.run_dir import run_dir
from ssd.cli.sampling_options import KeyFile
from ssd.cli.serve import is_serving
from ssd.client import Client
from ssd.core.drafter_kind import DrafterKind, kinds_of
from ssd.core.errors import ConfigError
from ssd.core.mode import Mode
from ssd.core.speculation_limits import SpeculationLimits
from ssd.measure import (
    Measurement,
    Plan,
    Recommendation,
    Way,
    measured_table,
    read_prompts,
    recommend,
    report_json,
    run_plan,
)

_READY_S = 60.0
_MODES = (Mode.SD, Mode.SSD)


def measure(
    prompts: Annotated[
        Path, typer.Option(help="A prompt a line: text, or JSON where the name ends in .jsonl.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for report and picture.")] = Path("out/measure"),
    address: Annotated[
        str | None, typer.Option(help="A running coordinator; default: serve on this machine.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Target to serve; see ssd serve.")] = None,
    draft: Annotated[str | None, typer.Option(help="Draft to serve, likewise.")] = None,
    draft_layers: Annotated[
        int | None,
        typer.Option("--self-layers", help="Draft with so many first layers of the target."),
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Number format of the target.")] = None,
    temperature: Annotated[
        list[float] | None,
        typer.Option(min=0.0, max=2.0, help="One or more; default: 0 and 1."),
    ] = None,
    drafter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,NAME]", help="Who drafts: model, ngram, self; several, to compare."
        ),
    ] = None,
    max_nodes: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Drafted tokens per round, to compare; default: the service's."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=2, help="Tokens of each text, at most.")] = 96,
    limit: Annotated[int, typer.Option(min=1, help="Prompts to take from the file.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every text.")] = 1,
    api_key_file: KeyFile = None,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report; everything else to standard error.")
    ] = False,
    config: ConfigFile = None,
    assignments: Assignments = None,
) -> None:
    """Run your own prompts plainly and with drafts; say what pays, which limits, or why not.

    Every prompt goes through every way, one at a time, at every temperature. Leaves report.json and
    measured.png. Exit status 1 when a text differs from plain decoding.

    Example: ssd measure --prompts mine.txt --target tales --drafter model --drafter model,ngram
    """
    console = Console(stderr=as_json)
    with one_sentence_errors():
        teams = [kinds_of(_names(each), field="--drafter") for each in drafter or ()]
        flags = {
            "models.target": target,
            "models.draft": draft,
            "models.draft_layers": draft_layers,
            "models.target_dtype": dtype,
            "speculation.drafters": ",".join(sorted(frozenset().union(*teams))) or None,
            "coordinator.port": 0,
        }
        if find_spec("matplotlib") is None:
            raise ConfigError("the picture needs matplotlib: pip install 'ssd-service[report]'")
        plan = Plan(
            read_prompts(prompts, limit=limit),
            tuple(dict.fromkeys(temperature or (0.0, 1.0))),
            _ways(teams, max_nodes),
            seed=seed,
            max_tokens=max_tokens,
        )
        try:
            with _service(address, api_key_file, config, assignments, flags, console) as client:
                measured = _run(client, plan, console)
        except KeyboardInterrupt:
            console.print("stopped")
            raise typer.Exit(INTERRUPTED_EXIT_CODE) from None
        recommendations = recommend(measured)
        report = report_json(recommendations)
        _leave(recommendations, report, out)
    _show(recommendations, console, out)
    if as_json:
        print(json.dumps(report, indent=2))
    if not report["identical_to_ar"]:
        raise typer.Exit(1)


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _ways(
    teams: Sequence[frozenset[DrafterKind]], max_nodes: Sequence[int] | None
) -> tuple[Way, ...]:
    """Every team of drafters within every bound, taking turns with the verifier and ahead of it."""
    return tuple(
        Way(mode, "+".join(sorted(team or ())), SpeculationLimits(nodes, drafters=team))
        for team in teams or (None,)
        for nodes in max_nodes or (None,)
        for mode in _MODES
    )


@contextmanager
def _service(
    address: str | None,
    api_key_file: Path | None,
    config: Path | None,
    assignments: list[str] | None,
    flags: Mapping[str, object],
    console: Console,
) -> Iterator[Client]:
    """A client of the service at the address, or of one that serves as long as the block lasts."""
    if address is not None:
        given = [key for key, value in flags.items() if key.startswith("models.") and value]
        if given:
            raise ConfigError(f"{given[0]} belongs to the service at {address}; leave it out")
        with connect(address, api_key_file) as client:
            yield client
        return
    # Ray is needed here and by few other commands; loading it takes seconds.
    from ssd.cluster.local_service import local_service

    settings = configuration(config, ["logging.level=error", *(assignments or [])], flags)
    with local_service(settings, run_dir=run_dir(), report=console.print) as service:
        service.wait_until(
            lambda: is_serving(service.address, num_workers=len(service.workers)),
            deadline_s=_READY_S,
        )
        with Client(service.address) as client:
            yield client


def _run(client: Client, plan: Plan, console: Console) -> list[Measurement]:
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("measuring", total=plan.num_requests)
        return run_plan(client, plan, done=lambda: progress.advance(task))


def _leave(recommendations: list[Recommendation], report: dict[str, object], out: Path) -> None:
    from ssd.measure.picture import draw_measured

    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        draw_measured(recommendations, out / "measured.png")
    except OSError as error:
        raise ConfigError(f"cannot write to {out}: {error.strerror}") from error


def _show(recommendations: list[Recommendation], console: Console, out: Path) -> None:
    console.print()
    console.print(measured_table(recommendations))
    console.print()
    for each in recommendations:
        words = f"temperature {each.temperature:g}: {each.words}"
        console.print(words, markup=False, highlight=False, soft_wrap=True)
    if any(each.came_in_bursts for each in recommendations):
        console.print(
            "[yellow]The machine is busy: texts came in bursts. The speeds are by the verifier's"
            " clock.[/yellow]"
        )
    for name in ("report.json", "measured.png"):
        console.print(f"left: {out / name}", markup=False, highlight=False, soft_wrap=True)
