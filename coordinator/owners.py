"""Which of several coordinators has a request: ids that they mint end in the owner's ordinal."""

from collections.abc import Sequence

from ssd.core.errors import OwnedElsewhere
from ssd.core.ids import SessionId


def expect_ours(session_id: SessionId, *, ordinal: int, peers: Sequence[str]) -> None:
    """`peers` are the addresses of all coordinators in the order of their ordinals.

    Raises:
        OwnedElsewhere: the id says that it is another's.
    """
    _, dash, suffix = session_id.rpartition("-")
    if not (dash and suffix.isdecimal()):
        return
    owner = int(suffix)
    if owner != ordinal and owner < len(peers):
        raise OwnedElsewhere(
            f"request {session_id} belongs to coordinator {owner} at {peers[owner]}", peers[owner]
        )
