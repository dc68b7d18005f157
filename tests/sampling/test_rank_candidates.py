import math
from itertools import pairwise

import pytest
import torch

from ssd.core.sampling_params import SamplingParams
from ssd.sampling import DrawSpec, NoiseRows, perturbed_scores, rank_candidates, target_token_ids

GREEDY = SamplingParams(temperature=0.0)
ALL_PARAMS = [
    GREEDY,
    SamplingParams(temperature=1.0),
    SamplingParams(temperature=0.6, top_p=0.9),
    SamplingParams(temperature=1.5, top_k=6),
    SamplingParams(temperature=1.0, min_p=0.1),
]


def draws_of(params: SamplingParams, num_rows: int, vocab_size: int, seed: int) -> list[DrawSpec]:
    noise = None if params.is_greedy else NoiseRows(seed, vocab_size)
    return [DrawSpec(params, position, noise) for position in range(num_rows)]


def random_logits(num_rows: int, vocab_size: int) -> torch.Tensor:
    return 3.0 * torch.randn(num_rows, vocab_size, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("params", ALL_PARAMS, ids=str)
def test_a_draft_with_the_targets_logits_guesses_every_draw(params: SamplingParams) -> None:
    logits = random_logits(400, 90)
    target = target_token_ids(logits, draws_of(params, 400, 90, seed=5))
    ranked = rank_candidates(logits, draws_of(params, 400, 90, seed=5), num_candidates=3)
    assert [row.token_ids[0] for row in ranked] == target


def test_a_draft_with_other_noise_does_not() -> None:
    logits = random_logits(400, 90)
    params = SamplingParams(temperature=1.0)
    target = target_token_ids(logits, draws_of(params, 400, 90, seed=5))
    ranked = rank_candidates(logits, draws_of(params, 400, 90, seed=6), num_candidates=3)
    assert [row.token_ids[0] for row in ranked] != target


@pytest.mark.parametrize("params", ALL_PARAMS, ids=str)
def test_candidates_are_the_best_scores_and_weights_their_softmax(params: SamplingParams) -> None:
    logits = random_logits(30, 90).double()
    draws = draws_of(params, 30, 90, seed=5)
    scores = perturbed_scores(logits, draws)
    shares = scores.softmax(dim=-1)
    for row, (token_ids, weights) in enumerate(rank_candidates(logits, draws, num_candidates=4)):
        possible = [score for score in scores[row].tolist() if score > -math.inf]
        assert len(token_ids) == len(weights) == min(4, len(possible))
        best = sorted(range(90), key=lambda token_id: -scores[row, token_id].item())
        assert list(token_ids) == best[: len(token_ids)]
        assert list(weights) == pytest.approx(shares[row, list(token_ids)].tolist())
        assert all(weight >= next_weight for weight, next_weight in pairwise(weights))
        assert sum(weights) <= 1.0 + 1e-9


def test_no_more_candidates_than_the_vocabulary() -> None:
    for num_candidates in (5, 6, 100):
        (row,) = rank_candidates(
            random_logits(1, 5), draws_of(GREEDY, 1, 5, seed=0), num_candidates=num_candidates
        )
        assert sorted(row.token_ids) == [0, 1, 2, 3, 4]
        assert sum(row.weights) == pytest.approx(1.0)


def test_impossible_tokens_are_no_candidates() -> None:
    params = SamplingParams(top_k=2)
    ranked = rank_candidates(
        random_logits(9, 30), draws_of(params, 9, 30, seed=0), num_candidates=8
    )
    assert [len(row.token_ids) for row in ranked] == [2] * 9


@pytest.mark.parametrize("params", ALL_PARAMS, ids=str)
def test_banned_tokens_never_appear_and_keep_their_weight(params: SamplingParams) -> None:
    logits = random_logits(30, 40)
    draws = draws_of(params, 30, 40, seed=5)
    is_banned = torch.arange(40) % 2 == 0
    free = rank_candidates(logits, draws, num_candidates=40)
    banned = rank_candidates(logits, draws, num_candidates=40, banned_token_ids=is_banned)
    for free_row, banned_row in zip(free, banned, strict=True):
        odd = [
            (token_id, weight)
            for token_id, weight in zip(free_row.token_ids, free_row.weights, strict=True)
            if token_id % 2 == 1
        ]
        assert list(zip(banned_row.token_ids, banned_row.weights, strict=True)) == odd


def test_equal_scores_are_ordered_by_id_and_the_last_place_goes_to_the_lowest() -> None:
    generator = torch.Generator().manual_seed(2)
    logits = torch.randint(0, 3, (40, 50), generator=generator).float()
    draws = draws_of(GREEDY, 40, 50, seed=0)
    for num_candidates in (1, 2, 7, 49, 50):
        ranked = rank_candidates(logits, draws, num_candidates=num_candidates)
        for row, candidates in zip(logits.tolist(), ranked, strict=True):
            best = sorted(range(50), key=lambda token_id: (-row[token_id], token_id))
            assert list(candidates.token_ids) == best[:num_candidates]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_broken_row_has_no_candidates_and_spares_the_others(bad: float) -> None:
    logits = random_logits(3, 20)
    logits[1, 13] = bad
    draws = draws_of(GREEDY, 3, 20, seed=0)
    ranked = rank_candidates(logits, draws, num_candidates=4)
    assert ranked[1] == ((), ())
    assert [len(row.token_ids) for row in ranked] == [4, 0, 4]


def test_a_row_with_every_token_banned_has_no_candidates() -> None:
    ranked = rank_candidates(
        random_logits(2, 20),
        draws_of(GREEDY, 2, 20, seed=0),
        num_candidates=4,
        banned_token_ids=torch.ones(20, dtype=torch.bool),
    )
    assert ranked == [((), ()), ((), ())]


def test_no_rows_have_no_candidates() -> None:
    assert rank_candidates(torch.empty(0, 20), [], num_candidates=4) == []


def test_a_smaller_draft_vocabulary_meets_the_same_noise() -> None:
    params = SamplingParams(temperature=1.0)
    logits = random_logits(50, 90)
    logits[:, 60:] = -math.inf
    target = target_token_ids(logits, draws_of(params, 50, 90, seed=5))
    ranked = rank_candidates(logits[:, :60], draws_of(params, 50, 90, seed=5), num_candidates=1)
    assert [row.token_ids[0] for row in ranked] == target
