"""Token ids in a flight file: the ids, or no more than how many there were."""

from collections.abc import Iterable
from typing import Any, Protocol

from ssd.core.ids import PrefixKey
from ssd.core.replay import Replayed

TokenIds = list[int] | int
"""Ids, or how many there were."""


class FlightFormat(Protocol):
    """How one role's records lie in a file, and how they are played."""

    def write_checkpoint(self, checkpoint: Any, ids: "IdWriter") -> list[Any]: ...

    def write_event(self, event: Any, ids: "IdWriter") -> list[Any]: ...

    def read_checkpoint(self, values: list[Any]) -> Any: ...

    def read_event(self, values: list[Any]) -> Any:
        """Raises ValueError for a kind that this version does not know."""

    def replay(self, segments: Any, *, with_tokens: bool) -> Replayed:
        """Play the record on the core, or check the lengths where that is all there is."""


class IdWriter:
    """Writes ids and keys, or what may be known of them without the text."""

    def __init__(self, *, with_tokens: bool) -> None:
        self.with_tokens = with_tokens

    def ids(self, token_ids: Iterable[int]) -> TokenIds:
        listed = list(token_ids)
        return listed if self.with_tokens else len(listed)

    def key(self, key: PrefixKey) -> int:
        """A key gives its last token away to whoever has the one before it."""
        return key if self.with_tokens else 0


def read_ids(values: TokenIds) -> tuple[int, ...]:
    return (0,) * values if isinstance(values, int) else tuple(values)
