"""Slot sets as masks."""

import random

import numpy as np

from ssd.core.ids import SlotSet
from ssd.engine.tree_mask import tree_mask, within_window


def test_mask_says_what_the_bits_say() -> None:
    generator = random.Random(1)
    for num_slots in (1, 7, 8, 9, 64, 300):
        visible = [SlotSet(generator.getrandbits(num_slots)) for _ in range(5)]
        slow = [[bool(row >> slot & 1) for slot in range(num_slots)] for row in visible]
        assert tree_mask(visible, 0, num_slots).tolist() == slow


def test_all_rows_see_the_past() -> None:
    mask = tree_mask([SlotSet(0b01), SlotSet(0b11)], 3, 5)
    assert mask.tolist() == [[True] * 3 + [True, False], [True] * 5]


def test_window_drops_old_positions_wherever_their_slots_are() -> None:
    seen = np.ones((2, 4), dtype=np.bool_)
    kept = within_window(
        seen,
        row_positions=(10, 12),
        slot_positions=np.array([12, 8, 9, 10]),
        window=3,
    )
    assert kept.tolist() == [[True, True, True, True], [True, False, False, True]]
