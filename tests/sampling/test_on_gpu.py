import pytest
import torch

from ssd.core.sampling_params import SamplingParams
from ssd.sampling import (
    DrawSpec,
    NoiseRows,
    Purpose,
    random_words,
    rank_candidates,
    target_token_ids,
)

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda")


def test_words_are_those_of_the_cpu() -> None:
    positions = [0, 3, 2**31]
    for seed in (0, 2**64 - 1):
        on_cpu, on_gpu = (
            random_words(seed, positions, num_values=4099, purpose=Purpose.COUPLED, device=device)
            for device in (None, CUDA)
        )
        assert torch.equal(on_gpu.cpu(), on_cpu)


def test_noise_is_that_of_the_cpu() -> None:
    on_gpu = NoiseRows(5, 4099, device=CUDA).rows(range(20)).cpu()
    torch.testing.assert_close(on_gpu, NoiseRows(5, 4099).rows(range(20)), rtol=2e-7, atol=1e-9)


@pytest.mark.parametrize("vocab_size", [5, 4099, 131_072])
def test_the_lowest_id_wins_a_tie(vocab_size: int) -> None:
    generator = torch.Generator().manual_seed(vocab_size)
    logits = torch.randint(0, 2, (32, vocab_size), generator=generator).float()
    draws = [DrawSpec(SamplingParams(temperature=0.0), row, None) for row in range(32)]
    assert target_token_ids(logits.to(CUDA), draws) == target_token_ids(logits, draws)


@pytest.mark.parametrize("device", [None, CUDA], ids=["noise on cpu", "noise on gpu"])
def test_draws_are_those_of_the_cpu(device: torch.device | None) -> None:
    params = SamplingParams(temperature=0.7, top_k=50, top_p=0.9, min_p=0.01, seed=5)
    logits = 3.0 * torch.randn(64, 4099, generator=torch.Generator().manual_seed(1))
    on_cpu = [DrawSpec(params, row, NoiseRows(5, 4099)) for row in range(64)]
    on_gpu = [DrawSpec(params, row, NoiseRows(5, 4099, device=device)) for row in range(64)]
    assert target_token_ids(logits.double().to(CUDA), on_gpu) == target_token_ids(
        logits.double(), on_cpu
    )


def test_a_ban_made_on_the_cpu_holds() -> None:
    banned = torch.zeros(16, dtype=torch.bool)
    banned[3] = True
    logits = torch.arange(16.0).flip(0).roll(4)[None].to(CUDA)
    greedy = DrawSpec(SamplingParams(temperature=0.0), 0, None)
    (ranked,) = rank_candidates(logits, [greedy], num_candidates=16, banned_token_ids=banned)
    assert 3 not in ranked.token_ids
    assert len(ranked.token_ids) == 15
