"""Sessions whose clients left, kept for a while in case they come back for the rest."""

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ssd.core.client_session import Admission
from ssd.core.ids import SessionId

_AT_MOST = 1024
Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class _Entry(Generic[Kept]):
    session: Kept
    until: float


class KeptSessions(Generic[Kept]):
    """By id, for a fixed time each, the oldest first out when there are too many."""

    def __init__(self, keep_s: float) -> None:
        self._keep_s = keep_s
        self._entries: dict[SessionId, _Entry[Kept]] = {}  # in order of their ends

    def put(self, session_id: SessionId, session: Kept, *, now: float) -> list[SessionId]:
        """Keep a session; those that had to go for it."""
        self._entries[session_id] = _Entry(session, now + self._keep_s)
        dropped = list(self._entries)[: max(len(self._entries) - _AT_MOST, 0)]
        for each in dropped:
            del self._entries[each]
        return dropped

    def get(self, session_id: SessionId) -> Kept | None:
        entry = self._entries.get(session_id)
        return entry.session if entry is not None else None

    def take(self, session_id: SessionId) -> Kept | None:
        """Remove a session; None if it is not kept."""
        entry = self._entries.pop(session_id, None)
        return entry.session if entry is not None else None

    def expire(self, now: float) -> list[SessionId]:
        """Remove those whose time is over."""
        over = [each for each, entry in self._entries.items() if entry.until <= now]
        for each in over:
            del self._entries[each]
        return over


def is_same_request(known: Admission, again: Admission, *, has_seed: bool) -> bool:
    """Whether a request that comes again is the one that was admitted; a seed that the client left
    to the server was drawn anew."""
    if not has_seed:
        again = replace(again, params=replace(again.params, seed=known.params.seed))
    return known == again
