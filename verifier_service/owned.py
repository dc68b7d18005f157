"""Session names that are unique over the coordinators which share a verifier."""

from dataclasses import replace

from ssd.core.ids import SessionId
from ssd.core.ledger import Ledger
from ssd.core.messages import Commit, Finished, Refused


def owned(session_id: SessionId, owner: str) -> SessionId:
    """A coordinator's session as this process and its drafters name it."""
    return SessionId(f"{owner}/{session_id}")


def disowned(
    message: Commit | Finished | Refused | Ledger, owner: str
) -> Commit | Finished | Refused | Ledger:
    """A report with the names that its coordinator gave."""
    if isinstance(message, Ledger):
        entries = tuple(
            replace(each, session_id=_plain(each.session_id, owner)) for each in message.entries
        )
        return replace(message, entries=entries)
    return replace(message, session_id=_plain(message.session_id, owner))


def _plain(session_id: SessionId, owner: str) -> SessionId:
    return SessionId(session_id.removeprefix(f"{owner}/"))
