"""KV tensors come with the first rows, grow with the slots and go with the session."""

import pytest
import torch
from torch import Tensor

from ssd.core.ids import SessionId
from ssd.engine.kv_store import KvStore, LayerKv

SESSION = SessionId("a")


def _write(store: KvStore, slots: list[int], *, layer: int = 0, dim: int = 3) -> LayerKv:
    kv = store.open(SESSION, max(slots) + 1)
    kv.place(slots, slots)
    return kv.write(layer, torch.tensor(slots), _rows(slots, dim), -_rows(slots, dim))


def _rows(slots: list[int], dim: int) -> Tensor:
    """[2, rows, dim], each row filled with its slot's number plus one."""
    return torch.tensor(slots, dtype=torch.float32)[None, :, None].expand(2, -1, dim) + 1


def test_rows_land_in_their_slots() -> None:
    stored = _write(KvStore(block_slots=4), [2, 0])
    assert stored.keys[0, :, 0].tolist() == [1, 0, 3, 0]
    assert stored.values[1, :, 2].tolist() == [-1, 0, -3, 0]


def test_growth_keeps_what_was_written() -> None:
    store = KvStore(block_slots=4)
    _write(store, [0, 1, 2, 3])
    stored = _write(store, [9])
    assert stored.keys[0, :, 0].tolist() == [1, 2, 3, 4, 0, 0, 0, 0, 0, 10, 0, 0]


def test_no_growth_within_a_block() -> None:
    store = KvStore(block_slots=4)
    before = _write(store, [0]).keys.data_ptr()
    assert _write(store, [3]).keys.data_ptr() == before


def test_layers_may_differ_in_shape() -> None:
    store = KvStore(block_slots=4)
    _write(store, [0], layer=0, dim=3)
    assert _write(store, [0], layer=1, dim=5).keys.shape == (2, 4, 5)


def test_bytes_are_those_of_the_tensors() -> None:
    store = KvStore(block_slots=4)
    _write(store, [0])
    assert store.num_bytes == 2 * (2 * 4 * 3) * 4


def test_release_forgets_the_session() -> None:
    store = KvStore()
    _write(store, [0])
    store.release(SESSION)
    store.release(SESSION)
    assert (store.num_sessions, store.num_bytes) == (0, 0)


def test_positions_follow_slots() -> None:
    store = KvStore(block_slots=4)
    kv = store.open(SESSION, 2)
    kv.place([1, 0], [7, 8])
    assert kv.positions.tolist() == [8, 7, 0, 0]


def test_empty_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="block_slots"):
        KvStore(block_slots=0)
