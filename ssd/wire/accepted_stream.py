"""The accepting end of a stream between two services."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from ssd.core.errors import NoCapacity, ProtocolError, SsdError
from ssd.wire.outbox import Outbox
from ssd.wire.status import status_code


async def run_accepted(
    requests: AsyncIterator[Any],
    context: Any,
    outbox: Outbox[Any],
    *,
    take: Callable[[Any], None],
    encode: Callable[[Iterable[Any]], Any],
) -> None:
    """Hand every request to `take` and write what the outbox collects, until the peer leaves.

    A peer that `take` refuses with a ProtocolError, or that reads too slowly, is told so.
    """
    refusal: SsdError | None = None
    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(_read(requests, take))
        writer = tasks.create_task(_write(context, outbox, encode))
        await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
        if not reader.done():  # somebody closed the outbox
            reader.cancel()
            refusal = NoCapacity("more reports wait than the peer may leave unread")
        elif not reader.cancelled() and (refusal := reader.result()) is not None:
            outbox.close()  # a status may follow only when all writes have ended
        else:
            writer.cancel()
    if refusal is not None:
        await context.abort(status_code(refusal), str(refusal))


async def _read(requests: AsyncIterator[Any], take: Callable[[Any], None]) -> ProtocolError | None:
    """Why the peer is refused; None when it left."""
    try:
        async for request in requests:
            take(request)
    except ProtocolError as error:
        return error
    return None


async def _write(context: Any, outbox: Outbox[Any], encode: Callable[[Iterable[Any]], Any]) -> None:
    async for batch in outbox.batches():
        await context.write(encode(batch))
