"""Writing to one client, whose answers take turns; a client that takes nothing is given up."""

import asyncio
from typing import Any

from ssd.v1 import generation_pb2


class ClientStalled(Exception):
    """The client takes nothing; `writing` ends when it does, or when it leaves."""

    def __init__(self, writing: asyncio.Future[None]) -> None:
        super().__init__()
        self.writing = writing


class ResponseWriter:
    """One call's stream of responses, written one at a time."""

    def __init__(self, context: Any, *, stalled_client_s: float) -> None:
        self._context = context
        self._stalled_client_s = stalled_client_s
        self._lock = asyncio.Lock()

    async def write(self, response: generation_pb2.GenerateResponse) -> None:
        """Raises ClientStalled when the client does not take it in time."""
        async with self._lock:
            writing = asyncio.ensure_future(self._context.write(response))
            try:
                async with asyncio.timeout(self._stalled_client_s):
                    await asyncio.shield(writing)
            except TimeoutError:
                raise ClientStalled(writing) from None
            except asyncio.CancelledError:
                writing.cancel()
                raise
