"""The drafters' parts in a round to protobuf columns and back."""

from ssd.core.drafter_kind import DrafterKind, DrafterState
from ssd.core.errors import ProtocolError
from ssd.core.rounds import DrafterPart
from ssd.v1 import common_pb2

_KINDS = {
    DrafterKind.MODEL: common_pb2.DRAFTER_KIND_MODEL,
    DrafterKind.NGRAM: common_pb2.DRAFTER_KIND_NGRAM,
    DrafterKind.SELF: common_pb2.DRAFTER_KIND_SELF,
}
_STATES = {
    DrafterState.ACTIVE: common_pb2.DRAFTER_STATE_ACTIVE,
    DrafterState.PAUSED: common_pb2.DRAFTER_STATE_PAUSED,
    DrafterState.PROBED: common_pb2.DRAFTER_STATE_PROBED,
}
_KINDS_BACK: dict[int, DrafterKind] = {number: kind for kind, number in _KINDS.items()}
_STATES_BACK: dict[int, DrafterState] = {number: state for state, number in _STATES.items()}


def encode_parts(encoded: common_pb2.RoundRecord, parts: tuple[DrafterPart, ...]) -> None:
    """Fill in the columns."""
    for part in parts:
        encoded.drafters.append(_KINDS[part.kind])
        encoded.num_proposed_by.append(part.num_proposed)
        encoded.num_accepted_by.append(part.num_accepted)
        encoded.drafter_states.append(_STATES[part.state])


def decode_parts(message: common_pb2.RoundRecord) -> tuple[DrafterPart, ...]:
    """Those of the kinds and states that this version knows.

    Raises:
        ProtocolError: the columns differ in length.
    """
    columns = (
        message.drafters,
        message.num_proposed_by,
        message.num_accepted_by,
        message.drafter_states,
    )
    if len({len(column) for column in columns}) != 1:
        raise ProtocolError("the columns of a round's drafters differ in length")
    return tuple(
        DrafterPart(_KINDS_BACK[kind], num_proposed, num_accepted, _STATES_BACK[state])
        for kind, num_proposed, num_accepted, state in zip(*columns, strict=True)
        if kind in _KINDS_BACK and state in _STATES_BACK
    )
