"""`ssd bench`: what the parts cost on this machine."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from ssd.cli.options import one_sentence_errors
from ssd.core.errors import ConfigError

app = typer.Typer(help="Measure the parts of the service on this machine.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `engine` a command of its own; without this a single command would take its place."""


@app.command()
def engine(
    json_file: Annotated[
        Path | None, typer.Option("--json", help="File to write the figures to as well.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Measure this alone; may be given several times.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of a forward.")] = 1,
) -> None:
    """Forwards, batches and draws against what they could cost at best; ratios of one run.

    Runs on one CPU core unless --threads says more. Exit status 1 when a figure misses its limit.

    Example: ssd bench engine --json out/engine.json
    """
    console = Console(stderr=False)
    with one_sentence_errors():
        _make_room(json_file)
        from ssd import bench

        chosen = [each for each in bench.ENGINE_MEASUREMENTS if not only or each.name in only]
        unknown = set(only or ()) - {each.name for each in chosen}
        if unknown:
            known = ", ".join(each.name for each in bench.ENGINE_MEASUREMENTS)
            raise ConfigError(f"there is no measurement {min(unknown)}; there are {known}")
        bench.use_threads(threads)
        figures: list[bench.Figure] = []
        with Progress(console=Console(stderr=True), transient=True) as progress:
            for each in progress.track(chosen, description="measuring"):
                progress.console.print(f"{each.name}: {each.summary}")
                figures += each.run()
        console.print(bench.figures_table(figures))
        if json_file is not None:
            text = json.dumps(bench.report_json(figures), indent=2) + "\n"
            json_file.write_text(text, encoding="utf-8")
    if not all(figure.is_met for figure in figures):
        raise typer.Exit(1)


def _make_room(file: Path | None) -> None:
    """Find out first what would go wrong last.

    Raises:
        ConfigError: the file's folder can't be made.
    """
    if file is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {file.parent}: {error.strerror}") from error
