"""KV tensors come with the first rows, grow with the slots and go with the text."""

import gc
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ssd.core.ids import KvId
from ssd.engine.kv_buffer import kv_buffer
from ssd.engine.kv_store import KvStore, LayerKv

TEXT = KvId("a")


def _write(
    store: KvStore, slots: list[int], *, text: KvId = TEXT, layer: int = 0, dim: int = 3
) -> LayerKv:
    kv = store.open(text, max(slots) + 1)
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
    store.open(KvId("b"), 1)  # the second text knows the shapes from the first
    assert _write(store, [0], text=KvId("b"), layer=1, dim=5).values.shape == (2, 4, 5)


def test_bytes_are_those_of_the_slots_that_were_used() -> None:
    store = KvStore(block_slots=4)
    assert store.slot_bytes == 0
    _write(store, [0, 1, 2])
    assert store.num_bytes == 3 * store.slot_bytes
    assert store.slot_bytes == 2 * (2 * 3) * 4


def test_room_is_made_at_once_for_what_is_held() -> None:
    store = KvStore(block_slots=4)
    store.open(TEXT, 1, held=10)
    first = _write(store, [0])
    assert _write(store, [11]).keys.data_ptr() == first.keys.data_ptr()
    assert _write(store, [12]).keys.shape[1] == 24


def test_release_forgets_the_text() -> None:
    store = KvStore()
    _write(store, [0])
    store.release(TEXT)
    store.release(TEXT)
    assert (store.num_sessions, store.num_bytes) == (0, 0)


def test_positions_follow_slots() -> None:
    store = KvStore(block_slots=4)
    kv = store.open(TEXT, 2)
    kv.place([1, 0], [7, 8])
    assert kv.positions.tolist() == [8, 7, 0, 0]
    kv.move([(1, 3), (0, 1)])
    assert kv.positions.tolist() == [8, 8, 0, 7]


def test_moves_happen_at_once_in_all_layers() -> None:
    store = KvStore(block_slots=4)
    for layer in range(2):
        _write(store, [0, 1, 2, 3], layer=layer, dim=3 + layer)
    for text in (TEXT, KvId("b")):  # the second lies in stacks
        for layer in range(2):
            _write(store, [0, 1, 2, 3], text=text, layer=layer, dim=3 + layer)
        kv = store.open(text, 4)
        kv.move([(3, 1), (1, 3), (2, 0)])
        for layer in range(2):
            stored = _write(store, [0], text=text, layer=layer, dim=3 + layer)
            assert stored.keys[1, :, 2].tolist() == [1, 4, 3, 2]
            assert stored.values[0, :, 0].tolist() == [-1, -4, -3, -2]


def test_a_copy_is_a_text_of_its_own() -> None:
    store = KvStore(block_slots=4)
    _write(store, [0, 1, 2, 3, 4])
    store.copy(TEXT, KvId("b"), 3, held=8)
    store.release(TEXT)
    stored = _write(store, [3], text=KvId("b"))
    assert stored.keys[0, :, 0].tolist() == [1, 2, 3, 4, 0, 0, 0, 0]
    assert store.open(KvId("b"), 4).positions.tolist() == [0, 1, 2, 3, 0, 0, 0, 0]


def test_a_copy_is_copied_on_when_it_grows() -> None:
    store = KvStore(block_slots=4)
    _write(store, [0, 1, 2, 3, 4])
    store.copy(TEXT, KvId("b"), 5)
    stored = _write(store, [40], text=KvId("b"))
    assert stored.keys[0, :6, 0].tolist() == [1, 2, 3, 4, 5, 0]


def test_empty_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="block_slots"):
        KvStore(block_slots=0)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc here")
def test_room_that_is_not_used_costs_nothing_and_what_was_used_comes_back() -> None:
    before = _resident_bytes()
    buffer = kv_buffer((64, 2**20), dtype=torch.float32, device=torch.device("cpu"))  # 256 MiB
    assert _resident_bytes() - before < 2**23
    buffer[:8] = 1.0
    assert 2**24 < _resident_bytes() - before < 2**26
    del buffer
    gc.collect()
    assert _resident_bytes() - before < 2**23


def test_a_buffer_holds_any_format() -> None:
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        buffer = kv_buffer((2, 3), dtype=dtype, device=torch.device("cpu"))
        assert (buffer.dtype, buffer.shape, float(buffer.sum())) == (dtype, (2, 3), 0.0)
