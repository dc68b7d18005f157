"""Slot sets as masks."""

import random
import time

import numpy as np

from ssd.core.ids import SlotSet
from ssd.engine.tree_mask import tree_mask, within_window


def test_mask_says_what_the_bits_say() -> None:
    generator = random.Random(1)
    for num_slots in (1, 7, 8, 9, 64, 300):
        visible = [SlotSet(generator.getrandbits(num_slots)) for _ in range(5)]
        slow = [[bool(row >> slot & 1) for slot in range(num_slots)] for row in visible]
        assert tree_mask(visible, num_slots).tolist() == slow


def test_mask_is_quick() -> None:
    visible = [SlotSet(random.Random(row).getrandbits(4096)) for row in range(8)]
    fastest_s = min(_seconds_to_mask(visible) for _ in range(50))
    assert fastest_s < 200e-6  # measured: 10 µs; the margin is for busy machines


def test_window_drops_old_positions_wherever_their_slots_are() -> None:
    seen = np.ones((2, 4), dtype=np.bool_)
    kept = within_window(
        seen,
        row_positions=(10, 12),
        slot_positions=np.array([12, 8, 9, 10]),
        window=3,
    )
    assert kept.tolist() == [[True, True, True, True], [True, False, False, True]]


def _seconds_to_mask(visible: list[SlotSet]) -> float:
    start_s = time.perf_counter()
    tree_mask(visible, 4096)
    return time.perf_counter() - start_s
