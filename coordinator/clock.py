"""What decisions about sessions need of an event loop: the time, and being called later."""

from collections.abc import Callable
from typing import Any, Protocol


class Clock(Protocol):
    """An asyncio event loop is one, and so is simulated time."""

    def time(self) -> float:
        """Seconds, from any beginning."""
        ...

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Any: ...
