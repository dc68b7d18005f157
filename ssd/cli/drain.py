"""`ssd drain`: take a worker out of use without losing a token."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated

import typer

from ssd.cli.connection import client_of
from ssd.cli.options import Address, Assignments, ConfigFile, configuration, one_sentence_errors
from ssd.client import Client
from ssd.config import SsdConfig
from ssd.core.errors import ConfigError, Unavailable
from ssd.wire.ports import is_here

_LOOK_EVERY_S = 0.2


@dataclass(slots=True)
class Told:
    """A worker that one coordinator drains, and how many of its sessions are there still."""

    client: Client
    name: str
    num_staying: int


def drain(
    worker: Annotated[
        str | None, typer.Argument(help="Its name, as `ssd status` shows it.")
    ] = None,
    address: Address = None,
    *,
    undo: Annotated[bool, typer.Option(help="Put it back into use.")] = False,
    here: Annotated[
        bool, typer.Option("--here", help="The workers on this host, instead of one by its name.")
    ] = False,
    wait_s: Annotated[
        float, typer.Option(min=0.0, help="Seconds to wait for its last session to move or end.")
    ] = 0.0,
    config: ConfigFile = None,
    assignments: Assignments = None,
) -> None:
    """Place no session on a worker any more, and move those it has where another can take them.

    Every coordinator of cluster.coordinators is told, unless --address names one.

    Example: ssd drain verifier-0 --wait-s 600
    """
    with one_sentence_errors(), ExitStack() as stack:
        if (worker is None) is not here:
            raise ConfigError("name a worker, or say --here")
        settings = configuration(config, assignments)
        clients = [
            stack.enter_context(client_of(settings.security, each))
            for each in _coordinators(settings, address)
        ]
        told = [
            Told(client, name, client.drain(name, undo=undo))
            for client in _answering(clients)
            for name in _names(client, worker)
        ]
        _wait(told, wait_by=time.monotonic() + (0.0 if undo else wait_s))
    for each in told:
        print(_words(each, undo=undo))
    if not told:
        print("no worker of this host is registered")


def _coordinators(settings: SsdConfig, address: str | None) -> Sequence[str]:
    if address is not None:
        return [address]
    coordinator = settings.coordinator
    return settings.cluster.coordinators or [f"{coordinator.host}:{coordinator.port}"]


def _answering(clients: Sequence[Client]) -> Iterator[Client]:
    """One that is away places no sessions either; all away is an error.

    Raises:
        Unavailable: none answers.
    """
    away = []
    for client in clients:
        try:
            client.status()
        except Unavailable as error:
            away.append(error)
            print(f"{client.address}: {error}", file=sys.stderr)
        else:
            yield client
    if len(away) == len(clients):
        raise away[0]


def _names(client: Client, worker: str | None) -> list[str]:
    if worker is not None:
        return [worker]
    workers = [each.worker for each in client.status().workers]
    return [each.name for each in workers if is_here(each.address)]


def _wait(told: Sequence[Told], *, wait_by: float) -> None:
    while any(each.num_staying for each in told) and time.monotonic() < wait_by:
        time.sleep(_LOOK_EVERY_S)
        for each in told:
            sessions = each.client.status().sessions
            each.num_staying = sum(session.verifier == each.name for session in sessions)


def _words(told: Told, *, undo: bool) -> str:
    if undo:
        return f"{told.name} is back in use"
    if not told.num_staying:
        return f"{told.name} drains; it has no sessions"
    return (
        f"{told.name} drains; {told.num_staying} sessions finish there: no other worker can take "
        "them"
    )
