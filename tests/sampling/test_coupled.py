import math

import pytest
import torch

from ssd.core.sampling_params import SamplingParams
from ssd.sampling import (
    DrawSpec,
    NoiseRows,
    gumbel_rows,
    perturbed_scores,
    process_logits,
    target_token_ids,
)

GREEDY = SamplingParams(temperature=0.0)


def greedy_draws(num_rows: int) -> list[DrawSpec]:
    return [DrawSpec(GREEDY, position, None) for position in range(num_rows)]


def random_logits(num_rows: int, vocab_size: int, seed: int = 0) -> torch.Tensor:
    return 3.0 * torch.randn(num_rows, vocab_size, generator=torch.Generator().manual_seed(seed))


def mixed_draws(num_rows: int, vocab_size: int) -> list[DrawSpec]:
    """Greedy and sampled rows of three sessions, interleaved, with siblings at one position."""
    sessions = [(SamplingParams(temperature=0.6, top_k=5, seed=1), NoiseRows(1, vocab_size))]
    sessions += [(SamplingParams(temperature=1.0, seed=2), NoiseRows(2, vocab_size))]
    draws = []
    for row in range(num_rows):
        if row % 3 == 2:
            draws.append(DrawSpec(GREEDY, row // 2, None))
        else:
            params, noise = sessions[row // 4 % 2]
            draws.append(DrawSpec(params, row // 2, noise))
    return draws


def test_scores_are_logits_over_temperature_plus_noise() -> None:
    params = SamplingParams(temperature=0.5, top_k=4, seed=9)
    logits = random_logits(3, 20)
    draws = [DrawSpec(params, position, NoiseRows(9, 20)) for position in (4, 5, 5)]
    noise = gumbel_rows(9, [4, 5, 5], vocab_size=20)
    expected = process_logits(logits, [params] * 3) / 0.5 + noise
    assert torch.equal(perturbed_scores(logits, draws), expected)


def test_greedy_scores_are_the_logits() -> None:
    logits = random_logits(3, 20)
    assert perturbed_scores(logits, greedy_draws(3)) is logits


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
    ],
)
def test_scores_have_at_least_single_precision(dtype: torch.dtype, expected: torch.dtype) -> None:
    logits = random_logits(6, 20).to(dtype)
    assert perturbed_scores(logits, mixed_draws(6, 20)).dtype == expected
    assert perturbed_scores(logits, greedy_draws(6)).dtype == expected


def test_the_logits_are_left_alone() -> None:
    for dtype in (torch.float32, torch.float64):
        logits = random_logits(12, 20).to(dtype)
        before = logits.clone()
        target_token_ids(logits, mixed_draws(12, 20))
        target_token_ids(logits, [DrawSpec(SamplingParams(), 0, NoiseRows(0, 20))] * 12)
        assert torch.equal(logits, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_row_draws_the_same_alone_and_in_any_batch(dtype: torch.dtype) -> None:
    logits = random_logits(24, 101).to(dtype)
    draws = mixed_draws(24, 101)
    together = target_token_ids(logits, draws)
    alone = [target_token_ids(logits[row : row + 1], [draws[row]])[0] for row in range(24)]
    assert together == alone
    backwards = target_token_ids(logits.flip(0), draws[::-1])
    assert backwards[::-1] == together


def test_greedy_rows_in_a_mixed_batch_take_the_argmax() -> None:
    logits = random_logits(24, 101)
    for row, draw in enumerate(draws := mixed_draws(24, 101)):
        if draw.params.is_greedy:
            assert target_token_ids(logits, draws)[row] == int(logits[row].argmax())


def test_the_same_seed_and_position_draw_the_same_token_after_any_history() -> None:
    params = SamplingParams(seed=4)
    logits = random_logits(1, 50)
    fresh = target_token_ids(logits, [DrawSpec(params, 30, NoiseRows(4, 50))])
    used = NoiseRows(4, 50, capacity=2)
    for position in range(40):
        target_token_ids(logits, [DrawSpec(params, position, used)])
    assert target_token_ids(logits, [DrawSpec(params, 30, used)]) == fresh


@pytest.mark.parametrize("vocab_size", [5, 64, 1000, 4099])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_lowest_id_wins_a_tie(vocab_size: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(vocab_size)
    # Two levels only, so that every row is full of ties at its maximum.
    logits = torch.randint(0, 2, (64, vocab_size), generator=generator).to(dtype)
    expected = [row.index(max(row)) for row in logits.tolist()]
    assert target_token_ids(logits, greedy_draws(64)) == expected
    assert [target_token_ids(row.unsqueeze(0), greedy_draws(1))[0] for row in logits] == expected


def test_a_tie_between_the_first_and_the_last_id_goes_to_the_first() -> None:
    logits = torch.zeros(3, 1001)
    logits[1, 0] = logits[1, 1000] = 1.0
    logits[2, 999] = logits[2, 1000] = 1.0
    assert target_token_ids(logits, greedy_draws(3)) == [0, 0, 999]


@pytest.mark.parametrize("temperature", [1e-3, 1e-4, 1e-5, 1e-12, 5e-324])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tiny_temperatures_act_greedy(temperature: float, dtype: torch.dtype) -> None:
    params = SamplingParams(temperature=temperature, top_p=0.9, min_p=0.1, top_k=7)
    noise = NoiseRows(0, 200)
    # Whole numbers up to 100: distinct logits lie far enough apart for every one of these.
    logits = torch.stack(
        [torch.randperm(200, generator=torch.Generator().manual_seed(seed)) for seed in range(50)]
    ).to(dtype)
    logits -= 100.0
    draws = [DrawSpec(params, position, noise) for position in range(50)]
    scores = perturbed_scores(logits, draws)
    assert not bool(scores.isnan().any())
    assert not bool(scores.isposinf().any())
    assert target_token_ids(logits, draws) == logits.argmax(dim=-1).tolist()


@pytest.mark.parametrize("params", [GREEDY, SamplingParams(), SamplingParams(top_k=2, top_p=0.5)])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_broken_row_raises_and_names_itself(params: SamplingParams, bad: float) -> None:
    logits = random_logits(3, 20)
    logits[1, 13] = bad
    noise = None if params.is_greedy else NoiseRows(0, 20)
    draws = [DrawSpec(params, position, noise) for position in (7, 8, 9)]
    with pytest.raises(FloatingPointError, match=r"row 1 .* position 8"):
        target_token_ids(logits, draws)


def test_a_row_with_every_token_banned_raises() -> None:
    with pytest.raises(FloatingPointError, match="best score is -inf"):
        target_token_ids(torch.full((1, 5), -math.inf), greedy_draws(1))


def test_noise_may_be_wider_than_the_logits() -> None:
    params, logits = SamplingParams(seed=3), random_logits(4, 20)
    wide = [DrawSpec(params, position, NoiseRows(3, 33)) for position in range(4)]
    narrow = [DrawSpec(params, position, NoiseRows(3, 20)) for position in range(4)]
    assert torch.equal(perturbed_scores(logits, wide), perturbed_scores(logits, narrow))


def test_noise_narrower_than_the_logits_is_refused() -> None:
    draws = [DrawSpec(SamplingParams(), 0, NoiseRows(0, 19))]
    with pytest.raises(ValueError, match="too narrow"):
        target_token_ids(random_logits(1, 20), draws)


def test_no_rows_draw_no_tokens() -> None:
    assert target_token_ids(torch.empty(0, 20), []) == []


def test_one_draw_per_row() -> None:
    with pytest.raises(ValueError, match="3 rows"):
        target_token_ids(random_logits(3, 20), greedy_draws(2))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_noise_goes_with_sampling_and_not_with_greedy(temperature: float) -> None:
    noise = NoiseRows(0, 20) if temperature == 0.0 else None
    with pytest.raises(ValueError, match="noise goes with"):
        DrawSpec(SamplingParams(temperature=temperature), 0, noise)
