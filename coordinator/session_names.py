"""The names of sessions: whose request it is, its id, and which of its answers.

A request id means something to the key that chose it and to nobody else: another key with the same
id has another session, and asks in vain for this one. Names and ids are printable, so a line break
keeps the parts apart.
"""

from ssd.core.ids import SessionId

_SEPARATOR = "\n"


def session_id_of(owner: str, request_id: str, index: int = 0) -> SessionId:
    """The session of one answer; the owner is empty where there are no keys."""
    parts = [owner] if owner else []
    parts.append(request_id)
    if index:
        parts.append(str(index))
    return SessionId(_SEPARATOR.join(parts))


def request_id_of(session_id: SessionId, owner: str) -> str:
    """The id that the client knows."""
    parts = session_id.split(_SEPARATOR)
    return parts[1 if owner else 0]
