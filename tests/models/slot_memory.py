"""A runner whose KV is readable: each slot remembers what was run there, and after which text."""

from collections.abc import Sequence
from dataclasses import dataclass

from ssd.core.ids import PrefixKey, SessionId, SlotSet
from ssd.core.keys import EMPTY_KEY, extend_key
from ssd.core.rows import RowGroup
from tests.models.scripted_model import Prefix


@dataclass(frozen=True, slots=True)
class Cell:
    """A slot's content: the token, its position, and the key of the text that ends with it."""

    token_id: int
    position: int
    key: PrefixKey


class SlotMemory:
    """Rebuilds the text that each row sees from nothing but slots, positions and `visible`.

    A row must see exactly one slot for each position up to its own, and each of them must have been
    run after exactly the text before it. So a wrong slot, mask or position, or a slot that was
    overwritten, fails here even where the next token would happen to be right.
    """

    def __init__(self) -> None:
        self._cells: dict[SessionId, dict[int, Cell]] = {}
        self.num_rows = 0

    @property
    def session_ids(self) -> frozenset[SessionId]:
        return frozenset(self._cells)

    def forward(self, groups: Sequence[RowGroup]) -> list[list[Prefix]]:
        """The text up to each wanted row, group by group."""
        names = [group.session_id for group in groups]
        assert len(set(names)) == len(names), f"two groups of one session: {names}"
        return [self._run(group) for group in groups]

    def release(self, session_id: SessionId) -> None:
        self._cells.pop(session_id, None)

    def _run(self, group: RowGroup) -> list[Prefix]:
        assert len(set(group.slots)) == len(group.slots), f"a slot is written twice: {group.slots}"
        cells = self._cells.setdefault(group.session_id, {})
        for slot in group.slots:
            cells.pop(slot, None)
        order = sorted(range(len(group.slots)), key=lambda row: group.positions[row])
        prefixes = {row: _see(cells, group, row) for row in order}
        self.num_rows += len(order)
        assert list(group.wanted) == sorted(set(group.wanted)), f"wanted rows: {group.wanted}"
        return [prefixes[row] for row in group.wanted]


def _see(cells: dict[int, Cell], group: RowGroup, row: int) -> Prefix:
    """Write one row, whose ancestors are written, and read what it sees."""
    slot, position = group.slots[row], group.positions[row]
    others = _slots_of(SlotSet(group.visible[row] & ~(1 << slot)))
    assert group.visible[row] >> slot & 1, f"row {row} does not see itself"
    assert all(other in cells for other in others), f"row {row} sees an empty slot: {others}"
    above = sorted((cells[other] for other in others), key=lambda cell: cell.position)
    seen = [cell.position for cell in above]
    assert seen == list(range(position)), f"row {row} at {position} sees positions {seen}"
    key = EMPTY_KEY
    for cell in above:
        key = extend_key(key, cell.token_id)
        assert cell.key == key, f"row {row} sees position {cell.position} of another text"
    token_id = group.token_ids[row]
    cells[slot] = Cell(token_id, position, extend_key(key, token_id))
    return (*(cell.token_id for cell in above), token_id)


def _slots_of(slots: SlotSet) -> list[int]:
    found, rest = [], int(slots)
    while rest:
        lowest = rest & -rest
        found.append(lowest.bit_length() - 1)
        rest ^= lowest
    return found
