"""What the tests of many texts draw is what the services draw."""

import torch

from ssd.sampling import NoiseRows, Purpose, random_words
from tests.exactness.shared_draws import shared_noise, words_of_seeds

SEEDS = (0, 1, 7, 2**32 - 1, 2**32, 2**63 + 5, 2**64 - 1)


def test_words_of_many_seeds_are_those_of_each() -> None:
    positions = (3, 0, 100_000)
    together = words_of_seeds(SEEDS, positions, num_values=10, purpose=Purpose.ACCEPT)
    for seed, words in zip(SEEDS, together, strict=True):
        alone = random_words(seed, positions, num_values=10, purpose=Purpose.ACCEPT)
        assert torch.equal(words, alone)


def test_shared_noise_is_the_noise_of_the_seed() -> None:
    positions = range(5, 40)
    with shared_noise(positions, seeds=SEEDS, vocab_size=13) as noise_of:
        for seed in (*SEEDS, 12_345):
            rows = noise_of(seed, 13).rows(list(positions))
            assert torch.equal(rows, NoiseRows(seed, 13).rows(list(positions)))
