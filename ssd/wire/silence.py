"""Telling a peer that says nothing from a process that could not listen."""

import asyncio

_LOOKS_PER_LIMIT = 8


async def wait_for_silence(heard: asyncio.Event, limit_s: float) -> None:
    """Return once `heard` was not set for so long while this process ran.

    A process that was itself stopped has yet to read what came meanwhile, so only looks count, and
    however late one comes it counts for a period.
    """
    period_s, silent_s = limit_s / _LOOKS_PER_LIMIT, 0.0
    while silent_s < limit_s:
        heard.clear()
        await asyncio.sleep(period_s)
        silent_s = 0.0 if heard.is_set() else silent_s + period_s
