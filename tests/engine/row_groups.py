"""Row groups as the core would make them."""

from collections.abc import Sequence

from ssd.core.ids import KvId, SlotSet
from ssd.core.rows import RowGroup
from ssd.core.slots import Move


def chain(
    token_ids: Sequence[int],
    *,
    session: str = "a",
    past: Sequence[int] = (),
    slots: Sequence[int] | None = None,
    moves: Sequence[Move] = (),
) -> RowGroup:
    """Tokens that follow those in the slots `past`; slots count up from there by default."""
    first = len(past)
    taken = range(first, first + len(token_ids)) if slots is None else slots
    parents = range(-1, len(token_ids) - 1)
    return tree(token_ids, parents, session=session, past=past, slots=taken, moves=moves)


def tree(
    token_ids: Sequence[int],
    parents: Sequence[int],
    *,
    session: str = "a",
    past: Sequence[int] = (),
    slots: Sequence[int],
    moves: Sequence[Move] = (),
) -> RowGroup:
    """Rows below the text in the slots `past`: parent -1 is its last row. All rows are wanted."""
    past_len = len(past)
    assert list(past) == list(range(past_len)), "a text lies in its first slots, in order"
    depths: list[int] = []
    visible: list[int] = []
    for parent, slot in zip(parents, slots, strict=True):
        above = visible[parent] if parent >= 0 else 0
        visible.append(above | 1 << slot - past_len)
        depths.append(depths[parent] + 1 if parent >= 0 else past_len)
    return RowGroup(
        kv_id=KvId(session),
        token_ids=tuple(token_ids),
        positions=tuple(depths),
        past_len=past_len,
        slots=tuple(slots),
        visible=tuple(SlotSet(slots) for slots in visible),
        wanted=tuple(range(len(token_ids))),
        moves=tuple(moves),
    )
