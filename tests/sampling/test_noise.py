import math

import numpy as np
import pytest
import torch

from ssd.sampling import NoiseRows, Purpose, gumbel_rows, random_words

EULER_GAMMA = 0.5772156649015329


def test_equals_numpy_gumbel_of_the_same_words() -> None:
    words = random_words(3, range(20), num_values=5000, purpose=Purpose.COUPLED).numpy()
    uniform = (words + 0.5) * 2.0**-32
    expected = (-np.log(-np.log(uniform))).astype(np.float32)
    rows = gumbel_rows(3, range(20), vocab_size=5000)
    assert rows.dtype == torch.float32
    assert np.array_equal(rows.numpy(), expected)


def test_same_address_gives_the_same_noise() -> None:
    assert torch.equal(gumbel_rows(8, [4, 5], vocab_size=99), gumbel_rows(8, [4, 5], vocab_size=99))


def test_seed_and_position_both_matter() -> None:
    rows = torch.cat([gumbel_rows(seed, [4, 5], vocab_size=99) for seed in (0, 1, 2**32)])
    assert rows.unique(dim=0).shape[0] == 6


@pytest.mark.parametrize("vocab_size", [7, 1000, 300_001])
def test_a_row_does_not_depend_on_its_batch(vocab_size: int) -> None:
    positions = [9, 2, 500, 2, 3]
    together = gumbel_rows(8, positions, vocab_size=vocab_size)
    alone = [gumbel_rows(8, [position], vocab_size=vocab_size) for position in positions]
    assert torch.equal(together, torch.cat(alone))


def test_a_larger_vocabulary_extends_the_row() -> None:
    wide = gumbel_rows(8, [6], vocab_size=4099)
    assert torch.equal(wide[:, :1001], gumbel_rows(8, [6], vocab_size=1001))


def test_mean_and_variance_are_those_of_a_gumbel_variable() -> None:
    rows = gumbel_rows(21, range(500), vocab_size=4000).double()
    # Two million values; the bounds are six standard errors wide.
    assert rows.mean().item() == pytest.approx(EULER_GAMMA, abs=0.0055)
    assert rows.var().item() == pytest.approx(math.pi**2 / 6, abs=0.015)
    assert bool(rows.isfinite().all())


def test_cached_rows_are_the_rows() -> None:
    noise = NoiseRows(8, 50, capacity=8)
    for positions in ([3, 4, 5], [5, 4, 4, 9], [9], [20, 3], [15, 16, 14], []):
        expected = gumbel_rows(8, positions, vocab_size=50)
        assert torch.equal(noise.rows(positions), expected)
        assert torch.equal(noise.rows(positions), expected)


def test_cached_rows_survive_what_callers_do_to_them() -> None:
    noise = NoiseRows(8, 50)
    noise.rows([3]).zero_()
    assert torch.equal(noise.rows([3]), gumbel_rows(8, [3], vocab_size=50))


@pytest.mark.parametrize("prefetched", [[], [1, 2], [9, 10, 11], list(range(40)), [1, 5, 9, 13]])
def test_prefetch_changes_no_value(prefetched: list[int]) -> None:
    noise = NoiseRows(8, 50, capacity=4)
    noise.prefetch(prefetched)
    assert torch.equal(noise.rows([1, 2, 3]), gumbel_rows(8, [1, 2, 3], vocab_size=50))


def test_more_positions_than_the_ring_holds_are_served_all_the_same() -> None:
    noise = NoiseRows(8, 50, capacity=4)
    positions = [0, 4, 8, 1, 0, 7, 6, 5]
    assert torch.equal(noise.rows(positions), gumbel_rows(8, positions, vocab_size=50))


def test_only_missing_rows_and_those_to_follow_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[list[int]] = []

    class Counting(NoiseRows):
        def _make(self, positions: list[int]) -> torch.Tensor:  # type: ignore[override]
            made.append(list(positions))
            return super()._make(positions)

    noise = Counting(8, 50)
    noise.prefetch([1, 2])
    noise.rows([2, 3, 3, 1])
    noise.rows([3, 2, 1])
    noise.rows([30, 31])
    assert made == [[1, 2], list(range(3, 36))]


def test_a_large_vocabulary_is_not_made_ahead() -> None:
    noise = NoiseRows(8, 40_000)
    noise.rows([5])
    assert [each for each in noise._held if each is not None] == [5]


def test_memory_is_bounded_by_the_capacity() -> None:
    noise = NoiseRows(8, 50, capacity=4)
    before = _num_tensor_bytes(noise)
    for position in range(0, 3000, 3):
        noise.rows([position, position + 1])
    assert _num_tensor_bytes(noise) == before == 4 * 50 * 4
    assert len(noise._held) == 4


def test_refuses_a_ring_without_room() -> None:
    with pytest.raises(ValueError, match="capacity"):
        NoiseRows(8, 50, capacity=0)


def _num_tensor_bytes(noise: NoiseRows) -> int:
    tensors = [value for value in vars(noise).values() if isinstance(value, torch.Tensor)]
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors)


def test_a_row_is_ready_once_it_is_made() -> None:
    noise = NoiseRows(1, 50_000)
    assert not noise.is_ready(7)
    noise.prefetch([7])
    assert noise.is_ready(7)
    assert not noise.is_ready(7 + noise.capacity)
