"""Which slots each row attends to, as tensors.

The core says how long the text before all rows is, which all of them see, and with small integers
used as bit sets what of the slots above it; attention wants one boolean per row and slot.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ssd.core.ids import SlotSet

Mask = NDArray[np.bool_]


def tree_mask(visible: Sequence[SlotSet], past_len: int, num_slots: int) -> Mask:
    """One row per slot set, [rows, num_slots]: true where the row sees the slot."""
    num_bits = num_slots - past_len
    num_bytes = (num_bits + 7) // 8
    packed = b"".join([slots.to_bytes(num_bytes, "little") for slots in visible])
    octets = np.frombuffer(packed, dtype=np.uint8).reshape(len(visible), num_bytes)
    mask = np.ones((len(visible), num_slots), dtype=np.bool_)
    mask[:, past_len:] = np.unpackbits(octets, axis=1, count=num_bits, bitorder="little")
    return mask


def within_window(
    mask: Mask,
    *,
    row_positions: Sequence[int],
    slot_positions: NDArray[np.int64],
    window: int,
) -> Mask:
    """The mask less the slots whose token stands `window` or more positions before the row's."""
    oldest = np.asarray(row_positions, dtype=np.int64) - window
    near: Mask = slot_positions[None, :] > oldest[:, None]
    return mask & near
