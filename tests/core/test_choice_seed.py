from ssd.core.choice_seed import choice_seed
from ssd.core.sampling_params import MAX_SEED
from ssd.sampling import derive_seed


def test_equals_the_seed_that_tensors_derive() -> None:
    for seed in (0, 1, 2**32 - 1, 2**63 + 12345, MAX_SEED):
        seeds = [choice_seed(seed, choice) for choice in (0, 1, 2, 77, 2**32 - 1)]
        assert seeds == [derive_seed(seed, choice) for choice in (0, 1, 2, 77, 2**32 - 1)]
        assert seeds[0] == seed
        assert len(set(seeds)) == 5
