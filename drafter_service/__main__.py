"""`python -m drafter_service`: a drafter without Ray."""

import asyncio
import os
import socket
from collections.abc import Callable

from drafter_service.process import place_of, run_drafter
from ssd.cli.process import run_process
from ssd.config import SsdConfig


async def _run(
    config: SsdConfig, name: str, stop: asyncio.Event, ready: Callable[[str], None]
) -> None:
    device = f"process:{os.getpid()}"
    place = place_of(config, name=name, node=socket.gethostname(), device=device, core=None)
    await run_drafter(config, place, stop=stop, ready=ready, environ=os.environ)


if __name__ == "__main__":
    run_process(_run, default_name="drafter-0", help_text="Run a drafter until it is told to stop.")
