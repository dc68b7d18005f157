"""`python -m coordinator`: the process that clients talk to."""

import asyncio
import os
from collections.abc import Callable

from coordinator.service import run_coordinator
from ssd.cli.process import run_process
from ssd.config import SsdConfig


async def _run(
    config: SsdConfig, name: str, stop: asyncio.Event, ready: Callable[[str], None]
) -> None:
    await run_coordinator(config, stop=stop, ready=ready, environ=os.environ)


if __name__ == "__main__":
    run_process(
        _run, default_name="coordinator", help_text="Run a coordinator until it is told to stop."
    )
