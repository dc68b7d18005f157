import numpy as np
import pytest
import torch

from ssd.sampling import Purpose, derive_seed, philox4x32, random_words, uniforms

SEEDS = (0, 1, 0xFFFFFFFF, 2**32, 0x0123456789ABCDEF, 2**64 - 1)

# kat_vectors of Random123: counter, key (low word first), result.
KNOWN_ANSWERS = [
    (
        (0, 0, 0, 0),
        (0, 0),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def numpy_philox(counters: np.ndarray, seed: int) -> np.ndarray:
    """Philox4x32-10 of `[n, 4]` counters in the plainest terms: unsigned 64-bit products."""
    c0, c1, c2, c3 = (counters[:, lane].astype(np.uint64) for lane in range(4))
    low, high = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        first, second = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0 = (second >> np.uint64(32)) ^ c1 ^ np.uint64(low)
        c1 = second & np.uint64(0xFFFFFFFF)
        c2 = (first >> np.uint64(32)) ^ c3 ^ np.uint64(high)
        c3 = first & np.uint64(0xFFFFFFFF)
        low, high = (low + 0x9E3779B9) % 2**32, (high + 0xBB67AE85) % 2**32
    return np.stack([c0, c1, c2, c3], axis=1)


def numpy_words(seed: int, position: int, num_values: int, purpose: Purpose) -> np.ndarray:
    values = np.arange(num_values)
    counters = np.zeros((num_values, 4), dtype=np.uint64)
    counters[:, 0], counters[:, 1], counters[:, 2] = values >> 2, position, int(purpose)
    return numpy_philox(counters, seed)[values, values & 3]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_published_vectors(
    counter: tuple[int, int, int, int], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    c0, c1, c2, c3 = (torch.tensor(word) for word in counter)
    words = philox4x32((c0, c1, c2, c3), key[0] | key[1] << 32)
    assert tuple(int(word) for word in words) == expected


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_the_reference_knows_the_published_vectors(
    counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    assert tuple(numpy_philox(np.array([counter]), key[0] | key[1] << 32)[0]) == expected


def test_equals_the_reference_for_random_counters_and_seeds() -> None:
    random = np.random.default_rng(11)
    counters = random.integers(0, 2**32, size=(4096, 4), dtype=np.uint64)
    c0, c1, c2, c3 = torch.from_numpy(counters.astype(np.int64)).unbind(dim=1)
    seeds = [*SEEDS, *(int(seed) for seed in random.integers(0, 2**64, 20, dtype=np.uint64))]
    for seed in seeds:
        words = torch.stack(philox4x32((c0, c1, c2, c3), seed), dim=1)
        assert np.array_equal(words.numpy(), numpy_philox(counters, seed).astype(np.int64))


@pytest.mark.parametrize("purpose", list(Purpose))
@pytest.mark.parametrize("num_values", [1, 3, 4, 5, 1001])
def test_words_are_addressed_by_index_position_and_purpose(
    num_values: int, purpose: Purpose
) -> None:
    positions = [0, 7, 7, 2**31, 2**32 - 1]
    words = random_words(SEEDS[4], positions, num_values=num_values, purpose=purpose)
    assert words.shape == (5, num_values)
    for row, position in zip(words, positions, strict=True):
        expected = numpy_words(SEEDS[4], position, num_values, purpose)
        assert np.array_equal(row.numpy(), expected.astype(np.int64))


def test_purposes_share_no_word() -> None:
    rows = [random_words(5, [3], num_values=256, purpose=purpose) for purpose in Purpose]
    assert torch.cat(rows).unique().numel() == 256 * len(Purpose)


def test_no_positions_give_no_rows() -> None:
    words = random_words(5, [], num_values=9, purpose=Purpose.COUPLED)
    assert words.shape == (0, 9)


def test_uniforms_never_reach_0_or_1() -> None:
    extremes = uniforms(torch.tensor([0, 2**32 - 1])).tolist()
    assert extremes == [2.0**-33, 1.0 - 2.0**-33]


def test_the_first_choice_keeps_the_seed() -> None:
    assert [derive_seed(seed, 0) for seed in SEEDS] == list(SEEDS)


def test_later_choices_take_the_first_two_words_of_their_counter() -> None:
    for seed in SEEDS:
        for choice in (1, 2, 127, 2**32 - 1):
            low, high, _, _ = numpy_philox(np.array([[choice, 0, 5, 0]]), seed)[0]
            assert derive_seed(seed, choice) == int(low) + int(high) * 2**32


def test_derived_seeds_are_seeds_and_distinct() -> None:
    seeds = {derive_seed(99, choice) for choice in range(128)}
    assert len(seeds) == 128
    assert all(0 <= seed < 2**64 for seed in seeds)


@pytest.mark.parametrize("position", [-1, 2**32])
def test_refuses_a_position_that_would_wrap(position: int) -> None:
    with pytest.raises(ValueError, match="unsigned 32-bit"):
        random_words(1, [0, position], num_values=4, purpose=Purpose.COUPLED)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_refuses_a_seed_beyond_64_bits(seed: int) -> None:
    with pytest.raises(ValueError, match="unsigned 64-bit"):
        random_words(seed, [0], num_values=4, purpose=Purpose.COUPLED)


@pytest.mark.parametrize("choice", [-1, 2**32])
def test_refuses_a_choice_that_would_wrap(choice: int) -> None:
    with pytest.raises(ValueError, match="choice"):
        derive_seed(1, choice)
