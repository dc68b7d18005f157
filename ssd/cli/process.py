"""The command line of a process of the service: `python -m coordinator` and its like."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer

from ssd.cli.options import Assignments, ConfigFile, configuration, one_sentence_errors
from ssd.config import SsdConfig
from ssd.telemetry.logs import configure_logs
from ssd.threads import run_soon

RunProcess = Callable[
    [SsdConfig, str, asyncio.Event, Callable[[str], None]], Coroutine[Any, Any, None]
]
"""`run(config, name, stop, ready)`."""


def run_process(run: RunProcess, *, default_name: str, help_text: str) -> None:
    """Parse the command line, then run until SIGINT or SIGTERM."""

    def main(
        name: Annotated[str, typer.Option(help="Name of the place it fills.")] = default_name,
        config: ConfigFile = None,
        assignments: Assignments = None,
    ) -> None:
        with one_sentence_errors():
            settings = configuration(config, assignments)
            configure_logs(level=settings.logging.level, log_format=settings.logging.format)
            run_soon()
            asyncio.run(_until_signalled(run, settings, name))

    main.__doc__ = help_text
    typer.run(main)


async def _until_signalled(run: RunProcess, config: SsdConfig, name: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await run(config, name, stop, lambda address: print(f"{name} serves at {address}", flush=True))
