"""`ssd top`: live figures in the terminal."""

import time
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from ssd.cli.connection import connect
from ssd.cli.options import Address, one_sentence_errors
from ssd.client import Client
from ssd.core.errors import Unavailable
from ssd.telemetry.live_figures import Figures, Process, Snapshot, figures_between, take_snapshot

_SHARES = 100.0


def top(
    address: Address = None,
    interval_s: Annotated[
        float, typer.Option("--interval", min=0.2, help="Seconds between two looks.")
    ] = 2.0,
    *,
    once: Annotated[bool, typer.Option("--once", help="Look twice, print once and end.")] = False,
) -> None:
    """Show what requests, speculation and workers are doing, until Ctrl-C.

    Rates are those between two looks; ratios of the verifier are those of its last minute.

    Example: ssd top --interval 1
    """
    console = Console()
    with one_sentence_errors(), connect(address) as client:
        before = _look(client)
        try:
            if once:
                time.sleep(interval_s)
                console.print(_page(figures_between(before, _look(client))))
                return
            with Live(console=console, screen=True) as live:
                while True:
                    time.sleep(interval_s)
                    now = _look(client)
                    live.update(_page(figures_between(before, now)), refresh=True)
                    before = now
        except KeyboardInterrupt:
            return


def _look(client: Client) -> Snapshot:
    """Raises Unavailable when a process does not show its figures."""
    status = client.status()
    if not status.metrics_address:
        raise Unavailable("the service does not serve its figures: metrics.enabled is false")
    processes = [Process("coordinator", status.metrics_address)]
    processes += [
        Process(each.worker.name, each.worker.metrics_address)
        for each in status.workers
        if each.worker.metrics_address
    ]
    return take_snapshot(processes, time.monotonic())


def _page(figures: Figures) -> Group:
    return Group(_requests(figures), _speculation(figures), _lookups(figures), _workers(figures))


def _requests(figures: Figures) -> Table:
    table = Table("running", "queued", "tokens/s", "requests/s", "first token", "per token")
    table.title = "requests"
    table.add_row(
        f"{figures.num_running:.0f}",
        f"{figures.num_queued:.0f}",
        f"{figures.tokens_per_s:.1f}",
        f"{figures.requests_per_s:.2f}",
        _ms(figures.first_token_s),
        _ms(figures.token_s),
    )
    return table


def _speculation(figures: Figures) -> Table:
    table = Table("speed-up", "tokens/round", "acceptance", "busy", "overlap", "draft cost")
    table.title = "speculation"
    table.add_row(
        f"{figures.speedup:.2f}",
        f"{figures.tokens_per_round:.2f}",
        _percent(figures.acceptance),
        _percent(figures.busy),
        _percent(figures.overlap),
        _percent(figures.draft_cost),
    )
    return table


def _lookups(figures: Figures) -> Table:
    table = Table("hit", "late", "key", "absent")
    table.title = "what a commit found"
    table.add_row(*(_percent(figures.lookups[each]) for each in ("hit", "late", "key", "absent")))
    return table


def _workers(figures: Figures) -> Table:
    table = Table("worker", "sessions", "device busy", "KV slots used", "free", "memory", "stale")
    table.title = "workers"
    for each in figures.workers:
        table.add_row(
            each.name,
            f"{each.num_sessions:.0f}",
            _percent(each.device_busy),
            f"{each.kv_used:.0f}",
            f"{each.kv_free:.0f}",
            f"{each.memory_bytes / 2**20:.1f} MiB",
            f"{each.num_stale:.0f}",
        )
    return table


def _percent(share: float) -> str:
    return f"{share * _SHARES:.0f} %"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds else "-"
