"""`ssd config`: check a configuration file, show what is in force and why."""

import json
import os
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ssd.cli.options import Assignments, ConfigFile
from ssd.config import flat_values, load_config, parse_assignments, render_origins
from ssd.core.errors import ConfigError

app = typer.Typer(help="Check and show the configuration.", no_args_is_help=True)


@app.command()
def check(file: Annotated[Path, typer.Argument(help="Configuration file.")]) -> None:
    """Check FILE alone, without this shell's environment."""
    try:
        load_config(file=file, environment={}, overrides={})
    except ConfigError as error:
        _refuse(error)
    typer.echo(f"{file}: ok")


@app.command()
def show(
    config: ConfigFile = None,
    assignments: Assignments = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print every setting, its value, and where the value came from."""
    try:
        loaded = load_config(
            file=config, environment=os.environ, overrides=parse_assignments(assignments or [])
        )
    except ConfigError as error:
        _refuse(error)
    if as_json:
        report = {"values": flat_values(loaded), "origins": dict(loaded.origins)}
        typer.echo(json.dumps(report, indent=2))
    else:
        typer.echo(render_origins(loaded), nl=False)


def _refuse(error: ConfigError) -> NoReturn:
    typer.echo(str(error), err=True)
    raise typer.Exit(2) from error
