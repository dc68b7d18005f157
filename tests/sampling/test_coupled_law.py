"""The coupled draw follows softmax(processed logits / temperature), independently at each position.

200,000 draws on eight tokens, all of one seed, so the outcome of each test is fixed. Significance
1e-6: a faultless sampler passes, and the mutants at the end show that a wrong one does not.
"""

import pytest
import torch
from scipy.stats import chi2

from ssd.core.sampling_params import SamplingParams
from ssd.sampling import DrawSpec, NoiseRows, gumbel_rows, process_logits, target_token_ids

ALPHA = 1e-6
NUM_DRAWS = 200_000
VOCAB_SIZE = 8
LOGITS = torch.tensor([0.3, -1.2, 1.5, 0.0, -2.0, 1.4, 0.9, -0.4], dtype=torch.float64)


def law(params: SamplingParams) -> torch.Tensor:
    processed = process_logits(LOGITS.unsqueeze(0), [params])[0]
    return (processed / params.temperature).softmax(dim=-1)


def draw(params: SamplingParams) -> torch.Tensor:
    noise = NoiseRows(params.seed, VOCAB_SIZE, capacity=NUM_DRAWS)
    draws = [DrawSpec(params, position, noise) for position in range(NUM_DRAWS)]
    return torch.tensor(target_token_ids(LOGITS.expand(NUM_DRAWS, -1), draws))


def follows(token_ids: torch.Tensor, probabilities: torch.Tensor) -> bool:
    """Pearson's chi-square test; a token of probability 0 must not appear at all."""
    counts = torch.bincount(token_ids, minlength=len(probabilities)).double()
    expected = probabilities * len(token_ids)
    possible = expected > 0.0
    if bool(counts[~possible].any()):
        return False
    statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum().item()
    return bool(statistic < chi2.isf(ALPHA, int(possible.sum()) - 1))


def pairs(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return first * VOCAB_SIZE + second


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0, seed=1),
        SamplingParams(temperature=0.6, seed=2),
        SamplingParams(temperature=1.8, seed=2**64 - 1),
        SamplingParams(temperature=0.8, top_p=0.9, seed=3),
        SamplingParams(temperature=1.2, min_p=0.2, seed=4),
        SamplingParams(temperature=0.7, top_k=5, top_p=0.95, min_p=0.05, seed=5),
    ],
    ids=str,
)
def test_draws_follow_the_law(params: SamplingParams) -> None:
    assert follows(draw(params), law(params))


def test_with_top_k_2_no_third_token_ever_appears() -> None:
    params = SamplingParams(temperature=1.0, top_k=2, seed=6)
    token_ids = draw(params)
    assert set(token_ids.tolist()) == {2, 5}
    assert follows(token_ids, law(params))


def test_consecutive_positions_are_independent() -> None:
    params = SamplingParams(seed=7)
    token_ids = draw(params)
    joint = torch.outer(law(params), law(params)).flatten()
    assert follows(pairs(token_ids[0::2], token_ids[1::2]), joint)
    assert follows(pairs(token_ids[1:-1:2], token_ids[2::2]), joint)


def test_consecutive_seeds_are_independent() -> None:
    params = SamplingParams()
    noise = torch.cat([gumbel_rows(seed, [17], vocab_size=VOCAB_SIZE) for seed in range(10_000)])
    token_ids = (LOGITS + noise).argmax(dim=-1)
    joint = torch.outer(law(params), law(params)).flatten()
    assert follows(token_ids, law(params))
    assert follows(pairs(token_ids[0::2], token_ids[1::2]), joint)


def test_mutant_noise_reused_for_two_positions_is_caught() -> None:
    params = SamplingParams(seed=7)
    noise = gumbel_rows(7, range(NUM_DRAWS // 2), vocab_size=VOCAB_SIZE)
    token_ids = (LOGITS + noise.repeat_interleave(2, dim=0)).argmax(dim=-1)
    joint = torch.outer(law(params), law(params)).flatten()
    assert follows(token_ids[0::2], law(params))
    assert not follows(pairs(token_ids[0::2], token_ids[1::2]), joint)


def test_mutant_noise_divided_by_the_temperature_is_caught() -> None:
    params = SamplingParams(temperature=0.6, seed=8)
    noise = gumbel_rows(8, range(NUM_DRAWS), vocab_size=VOCAB_SIZE)
    token_ids = ((LOGITS + noise) / 0.6).argmax(dim=-1)
    assert not follows(token_ids, law(params))


def test_mutant_accepting_a_draft_that_equals_the_argmax_is_caught() -> None:
    params = SamplingParams(seed=9)
    token_ids = draw(params)
    argmax = int(LOGITS.argmax())
    drafted = torch.arange(NUM_DRAWS) % 10 == 0  # every tenth round drafts the target's argmax
    assert bool((token_ids[drafted] != argmax).any())
    assert not follows(torch.where(drafted, argmax, token_ids), law(params))
