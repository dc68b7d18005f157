"""A runner whose KV is readable: each slot remembers what was run there, and after which text."""

from collections.abc import Sequence
from dataclasses import dataclass

from ssd.core.ids import KvId, PrefixKey
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
    run after exactly the text before it. So a wrong slot, mask, move or position, or a slot that
    was overwritten, fails here even where the next token would happen to be right.
    """

    def __init__(self) -> None:
        self._cells: dict[KvId, dict[int, Cell]] = {}
        self.num_rows = 0
        self.num_moves = 0
        self.num_copied = 0

    @property
    def kv_ids(self) -> frozenset[KvId]:
        return frozenset(self._cells)

    def forward(self, groups: Sequence[RowGroup]) -> list[list[Prefix]]:
        """The text up to each wanted row, group by group."""
        names = [group.kv_id for group in groups]
        assert len(set(names)) == len(names), f"two groups of one text: {names}"
        return [self._run(group) for group in groups]

    def copy(self, source: KvId, target: KvId, num_slots: int) -> None:
        assert target not in self._cells, f"{target} has begun already"
        cells = self._cells[source]
        self._cells[target] = {slot: cells[slot] for slot in range(num_slots)}
        self.num_copied += num_slots

    def release(self, kv_id: KvId) -> None:
        self._cells.pop(kv_id, None)

    def _run(self, group: RowGroup) -> list[Prefix]:
        assert len(set(group.slots)) == len(group.slots), f"a slot is written twice: {group.slots}"
        cells = self._cells.setdefault(group.kv_id, {})
        self._move(cells, group)
        for slot in group.slots:
            cells.pop(slot, None)
        past = _past(cells, group.past_len)
        order = sorted(range(len(group.slots)), key=lambda row: group.positions[row])
        prefixes = {row: _see(cells, group, row, past) for row in order}
        self.num_rows += len(order)
        assert list(group.wanted) == sorted(set(group.wanted)), f"wanted rows: {group.wanted}"
        return [prefixes[row] for row in group.wanted]

    def _move(self, cells: dict[int, Cell], group: RowGroup) -> None:
        """All at once; what was moved away is nowhere else any more."""
        moved = {target: cells[source] for source, target in group.moves}
        assert len(moved) == len(group.moves), f"two moves to one slot: {group.moves}"
        for source, _ in group.moves:
            del cells[source]
        cells.update(moved)
        self.num_moves += len(group.moves)


def _past(cells: dict[int, Cell], past_len: int) -> list[Cell]:
    """The text that all rows see: slot and position are the same."""
    assert all(slot in cells for slot in range(past_len)), f"no KV for a text of {past_len}"
    past = [cells[slot] for slot in range(past_len)]
    assert [cell.position for cell in past] == list(range(past_len)), "the text is out of order"
    key = EMPTY_KEY
    for cell in past:
        key = extend_key(key, cell.token_id)
        assert cell.key == key, f"position {cell.position} was run in another text"
    return past


def _see(cells: dict[int, Cell], group: RowGroup, row: int, past: Sequence[Cell]) -> Prefix:
    """Write one row, whose ancestors are written, and read what it sees."""
    slot, position, visible = group.slots[row], group.positions[row], int(group.visible[row])
    seen_slots = {group.past_len + bit for bit in range(visible.bit_length()) if visible >> bit & 1}
    assert slot in seen_slots, f"row {row} does not see itself"
    others = seen_slots - {slot}
    assert all(other in cells for other in others), f"row {row} sees an empty slot: {others}"
    above = sorted((cells[other] for other in others), key=lambda cell: cell.position)
    seen = [cell.position for cell in above]
    assert seen == list(range(group.past_len, position)), f"row {row} at {position} sees {seen}"
    key = past[-1].key if past else EMPTY_KEY
    for cell in above:
        key = extend_key(key, cell.token_id)
        assert cell.key == key, f"row {row} sees position {cell.position} of another text"
    token_id = group.token_ids[row]
    cells[slot] = Cell(token_id, position, extend_key(key, token_id))
    return (*(cell.token_id for cell in (*past, *above)), token_id)
