"""Rows as the core would order them: a prompt, then trees above it."""

from ssd.core.ids import KvId, SlotSet
from ssd.core.rows import RowGroup


def prompt_rows(kv_id: KvId, start: int, end: int) -> RowGroup:
    """A prefill chunk: positions `start` to `end` of a text, no logits wanted."""
    positions = tuple(range(start, end))
    return RowGroup(
        kv_id=kv_id,
        token_ids=tuple(position % 1000 for position in positions),
        positions=positions,
        past_len=start,
        slots=positions,
        visible=tuple(SlotSet((2 << row) - 1) for row in range(end - start)),
        wanted=(),
    )


def tree_rows(kv_id: KvId, *, past_len: int, num_nodes: int) -> RowGroup:
    """A tree in which every node has two children, above a text of `past_len` tokens."""
    visible: list[SlotSet] = []
    depths: list[int] = []
    for node in range(num_nodes):
        parent = (node - 1) // 2
        visible.append(SlotSet((visible[parent] if node else 0) | 1 << node))
        depths.append(depths[parent] + 1 if node else 0)
    return RowGroup(
        kv_id=kv_id,
        token_ids=tuple(range(1, num_nodes + 1)),
        positions=tuple(past_len + depth for depth in depths),
        past_len=past_len,
        slots=tuple(range(past_len, past_len + num_nodes)),
        visible=tuple(visible),
        wanted=tuple(range(num_nodes)),
    )
