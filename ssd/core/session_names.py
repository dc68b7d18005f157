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
    request_id = _request_id(session_id, has_owner=bool(owner))
    assert request_id is not None, "a session of an owner has its name"
    return request_id


def is_of_request(session_id: str, request_id: str, *, has_owner: bool) -> bool:
    """Whether a session answers a request of this id, whoever owns it."""
    return _request_id(session_id, has_owner=has_owner) == request_id


def _request_id(session_id: str, *, has_owner: bool) -> str | None:
    lines = session_id.split(_SEPARATOR)
    return lines[has_owner] if len(lines) > has_owner else None
