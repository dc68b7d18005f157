"""`ssd doctor`: look at this machine and the service, and say what to do."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ssd.cli.connection import client_of
from ssd.cli.options import Address, Assignments, ConfigFile, configuration, one_sentence_errors
from ssd.doctor import Check, Health, machine_checks, service_checks

_STYLES = {Health.OK: "green", Health.WARN: "yellow", Health.FAIL: "red"}


def doctor(
    address: Address = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    config: ConfigFile = None,
    assignments: Assignments = None,
) -> None:
    """Check devices, memory, ports, versions, tokenizers, and a service where one runs.

    Exit status 1 when something keeps the service from working. A coordinator that does not answer
    counts as that only if --address names it.

    Example: ssd doctor
    """
    with one_sentence_errors():
        settings = configuration(config, assignments)
        coordinator = settings.coordinator
        checks = list(machine_checks(settings))
        where = address or f"{coordinator.host}:{coordinator.port}"
        with client_of(settings.security, where) as client:
            checks += service_checks(client, is_expected=address is not None)
    if as_json:
        print(json.dumps([asdict(each) for each in checks], indent=2))
    else:
        _show(checks)
    if any(each.health is Health.FAIL for each in checks):
        raise typer.Exit(1)


def _show(checks: list[Check]) -> None:
    table = Table("", "check", "found", "what to do", box=None, pad_edge=False)
    for each in checks:
        style = _STYLES[each.health]
        table.add_row(f"[{style}]{each.health}[/{style}]", each.name, each.found, each.advice)
    Console().print(table)
