"""Which slots each row attends to, as tensors.

The core says it with integers used as bit sets, which is compact and quick to build; attention
wants one boolean per row and slot.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ssd.core.ids import SlotSet

Mask = NDArray[np.bool_]


def tree_mask(visible: Sequence[SlotSet], num_slots: int) -> Mask:
    """One row per slot set, [rows, num_slots]: true where the row sees the slot."""
    num_bytes = (num_slots + 7) // 8
    packed = b"".join([slots.to_bytes(num_bytes, "little") for slots in visible])
    octets = np.frombuffer(packed, dtype=np.uint8).reshape(len(visible), num_bytes)
    bits = np.unpackbits(octets, axis=1, count=num_slots, bitorder="little")
    return bits.view(np.bool_)


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
