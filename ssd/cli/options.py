"""Options that several commands share, and the one way a refused configuration ends a process."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ssd.config import SsdConfig, load_config, parse_assignments
from ssd.core.errors import ConfigError, SsdError

CONFIG_ERROR_EXIT_CODE = 2
INTERRUPTED_EXIT_CODE = 130  # as a shell reports a process that SIGINT ended

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration file; default ./ssd.yaml."),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one key, such as verifier.max_rows=64."),
]
Drafters = Annotated[
    str | None,
    typer.Option("--drafter", metavar="NAME[,NAME]", help="Who drafts: model, ngram, self."),
]
Address = Annotated[
    str | None,
    typer.Option(help="Coordinator, as HOST:PORT; default: the one that is configured."),
]


def coordinator_address(address: str | None) -> str:
    """The address given, or that of the configured coordinator.

    Raises:
        ConfigError: the configuration is refused.
    """
    if address is not None:
        return address
    coordinator = configuration(None, None).coordinator
    return f"{coordinator.host}:{coordinator.port}"


def configuration(
    file: Path | None,
    assignments: list[str] | None,
    flags: Mapping[str, object] | None = None,
) -> SsdConfig:
    """The configuration a command runs with; `flags` are its own options, None where not given.

    Raises:
        ConfigError: an unknown name or a bad value anywhere.
    """
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    overrides = parse_assignments(assignments or []) | given
    return load_config(file=file, environment=os.environ, overrides=overrides).config


@contextmanager
def one_sentence_errors() -> Iterator[None]:
    """End the process with the error's own sentence: exit 2 for a configuration, 1 otherwise."""
    try:
        yield
    except SsdError as error:
        print(f"error: {error}", file=sys.stderr)
        is_config = isinstance(error, ConfigError)
        raise typer.Exit(CONFIG_ERROR_EXIT_CODE if is_config else 1) from error
