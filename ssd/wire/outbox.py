"""What waits to be written to one stream.

Producers never wait: they append, and what has come together since the last write leaves as one
message. A stream that falls behind the bound is closed by its owner instead of growing without end.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class OutboxOverflow(Exception):
    """More items wait than the stream's bound."""


class Outbox(Generic[Item]):
    """A bounded queue whose reader takes everything at once. Belongs to one event loop."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._items: deque[Item] = deque()
        self._is_filled = asyncio.Event()
        self._is_closed = False

    def put(self, items: Iterable[Item]) -> None:
        """Append items to be sent together.

        Raises:
            OutboxOverflow: the reader is too far behind; nothing was appended.
        """
        fresh = list(items)
        if len(self._items) + len(fresh) > self._bound:
            raise OutboxOverflow(f"{len(self._items)} messages wait for a bound of {self._bound}")
        self._items.extend(fresh)
        self._is_filled.set()

    def close(self) -> None:
        """Let `batches` end once everything was taken."""
        self._is_closed = True
        self._is_filled.set()

    async def batches(self) -> AsyncIterator[list[Item]]:
        """Everything that waits, whenever something does, until `close`."""
        while True:
            await self._is_filled.wait()
            self._is_filled.clear()
            if self._items:
                batch = list(self._items)
                self._items.clear()
                yield batch
            elif self._is_closed:
                return
            if self._is_closed:
                self._is_filled.set()
