"""Row groups as the core would make them."""

from collections.abc import Sequence

from ssd.core.ids import SessionId, SlotSet
from ssd.core.rows import RowGroup


def chain(
    token_ids: Sequence[int],
    *,
    session: str = "a",
    past: Sequence[int] = (),
    slots: Sequence[int] | None = None,
) -> RowGroup:
    """Tokens that follow the rows in the slots `past`; slots count up from there by default."""
    first = len(past)
    taken = range(first, first + len(token_ids)) if slots is None else slots
    return tree(
        token_ids,
        parents=range(-1, len(token_ids) - 1),
        session=session,
        past=past,
        slots=taken,
    )


def tree(
    token_ids: Sequence[int],
    parents: Sequence[int],
    *,
    session: str = "a",
    past: Sequence[int] = (),
    slots: Sequence[int],
) -> RowGroup:
    """Rows below the rows in `past`: parent -1 is the last of those. All rows are wanted."""
    depths: list[int] = []
    visible: list[int] = []
    for parent, slot in zip(parents, slots, strict=True):
        above = visible[parent] if parent >= 0 else sum(1 << slot for slot in past)
        visible.append(above | 1 << slot)
        depths.append(depths[parent] + 1 if parent >= 0 else len(past))
    return RowGroup(
        session_id=SessionId(session),
        token_ids=tuple(token_ids),
        positions=tuple(depths),
        slots=tuple(slots),
        visible=tuple(SlotSet(slots) for slots in visible),
        wanted=tuple(range(len(token_ids))),
    )
