"""The accepting end of a stream between two services."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import grpc.aio

from ssd.core.errors import NoCapacity, ProtocolError, SsdError, Unavailable
from ssd.wire.checksums import Mangled
from ssd.wire.outbox import Outbox
from ssd.wire.silence import wait_for_silence
from ssd.wire.status import status_code


async def run_accepted(
    requests: AsyncIterator[Any],
    context: Any,
    outbox: Outbox[Any],
    *,
    take: Callable[[Any], None],
    encode: Callable[[Iterable[Any]], Any],
    silent_limit_s: float,
) -> None:
    """Hand every request to `take` and write what the outbox collects, until the peer leaves.

    A peer that `take` refuses with a ProtocolError, that reads too slowly, or that is silent for
    `silent_limit_s`, its heartbeats included, is told so.
    """
    refusal: SsdError | None = None
    heard = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(_read(requests, take, heard))
        writer = tasks.create_task(_write(context, outbox, encode))
        silence = tasks.create_task(wait_for_silence(heard, silent_limit_s))
        await asyncio.wait({reader, writer, silence}, return_when=asyncio.FIRST_COMPLETED)
        if reader.done():
            if not reader.cancelled() and (refusal := reader.result()) is not None:
                outbox.close()  # a status may follow only when all writes have ended
            else:
                writer.cancel()
        elif writer.done():
            if writer.result():
                refusal = NoCapacity("more reports wait than the peer may leave unread")
        else:
            refusal = Unavailable(f"nothing was heard from the peer for {silent_limit_s:g} s")
            outbox.close()
        reader.cancel()
        silence.cancel()
    if refusal is not None:
        await context.abort(status_code(refusal), str(refusal))


async def _read(
    requests: AsyncIterator[Any], take: Callable[[Any], None], heard: asyncio.Event
) -> ProtocolError | None:
    """Why the peer is refused; None when it left."""
    try:
        async for request in requests:
            heard.set()
            if isinstance(request, Mangled):
                return ProtocolError(request.reason)
            take(request)
    except ProtocolError as error:
        return error
    return None


async def _write(context: Any, outbox: Outbox[Any], encode: Callable[[Iterable[Any]], Any]) -> bool:
    """True when somebody closed the outbox, False when the peer is gone."""
    try:
        async for batch in outbox.batches():
            await context.write(encode(batch))
    except grpc.aio.InternalError:  # gRPC says no more than that the write failed
        return False
    return True
