"""The accepting end of a stream between two services."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from ssd.wire.outbox import Outbox


async def run_accepted(
    requests: AsyncIterator[Any],
    context: Any,
    outbox: Outbox[Any],
    *,
    take: Callable[[Any], None],
    encode: Callable[[Iterable[Any]], Any],
) -> None:
    """Hand every request to `take` and write what the outbox collects, until the peer leaves."""
    async with asyncio.TaskGroup() as tasks:
        writer = tasks.create_task(_write(context, outbox, encode))
        try:
            async for request in requests:
                take(request)
        finally:
            writer.cancel()


async def _write(context: Any, outbox: Outbox[Any], encode: Callable[[Iterable[Any]], Any]) -> None:
    async for batch in outbox.batches():
        await context.write(encode(batch))
