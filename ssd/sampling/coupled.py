"""The coupled rule: the target's next token is one draw whose noise both sides share.

    y = argmax_v( processed_logits[v] / temperature + noise[position, v] )

With standard Gumbel noise y follows softmax(processed_logits / temperature) exactly (the
Gumbel-max trick). The noise is fixed by seed and position before anything is drafted, so no draft
can change y; the drafter runs the same race with its own logits and mostly guesses the winner.
Temperature 0 is the same race without noise. The lowest id wins a tie.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ssd.core.sampling_params import SamplingParams
from ssd.sampling.host_copy import ids_and_numbers, to_host
from ssd.sampling.noise import NoiseRows
from ssd.sampling.processors import divide_by_temperature, process_logits
from ssd.sampling.text_edits import PathEdits, edit_logits


@dataclass(frozen=True, slots=True)
class DrawSpec:
    """How one row of logits becomes a token: `position` is the index of the token being drawn."""

    params: SamplingParams
    position: int
    noise: NoiseRows | None  # a greedy draw has none, nor has one of rule `ratio`
    edits: PathEdits | None = None

    def __post_init__(self) -> None:
        is_noisy = self.params.is_coupled and not self.params.is_greedy
        if is_noisy != (self.noise is not None):
            raise ValueError(
                f"noise goes with the coupled rule above temperature 0 and nowhere else, "
                f"not with {self.params}"
            )


class RankedCandidates(NamedTuple):
    """Guesses at the target's draw, best first, each with the probability that it is taken."""

    token_ids: tuple[int, ...]
    weights: tuple[float, ...]


def perturbed_scores(logits: Tensor, draws: Sequence[DrawSpec]) -> Tensor:
    """The scores whose argmax is the draw: `[num_rows, vocab]`, at least float32.

    The logits are left alone, and returned themselves where nothing has to be done to them.

    Raises:
        ValueError: the draws do not match the rows, or noise is narrower than the logits.
    """
    if logits.dtype not in (torch.float32, torch.float64):
        logits = logits.float()
    logits = edit_logits(logits, draws)
    params = [draw.params for draw in draws]
    scores = divide_by_temperature(process_logits(logits, params), params)
    if all(draw.noise is None for draw in draws):
        return scores
    if scores is logits:
        scores = logits.clone()
    _add_noise(scores, draws)
    return scores


def target_token_ids(logits: Tensor, draws: Sequence[DrawSpec]) -> list[int]:
    """Draw one token per row of `[num_rows, vocab]`: the argmax of the perturbed scores.

    Raises:
        FloatingPointError: a row holds NaN or +inf, or leaves no token possible.
    """
    token_ids, best_scores = _first_argmax(perturbed_scores(logits, draws))
    for row, score in enumerate(best_scores):
        if not math.isfinite(score):
            raise FloatingPointError(
                f"row {row} of the logits yields no token at position {draws[row].position}: "
                f"its best score is {score}"
            )
    return token_ids


def rank_candidates(
    logits: Tensor,
    draws: Sequence[DrawSpec],
    *,
    num_candidates: int,
    banned_token_ids: Tensor | None = None,
) -> list[RankedCandidates]:
    """Guess each row's draw from the draft's logits.

    A weight is the softmax of the perturbed scores over the whole row, banned ids included. A
    token that cannot win is no candidate, so a row may have fewer than asked for; a row with NaN
    or +inf has none, because a draft may be useless but must not fail. `banned_token_ids` is a
    bool mask over the vocabulary.
    """
    scores = perturbed_scores(logits, draws)
    probabilities = scores.softmax(dim=-1)
    if banned_token_ids is not None:
        scores = scores.masked_fill(banned_token_ids.to(scores.device), -math.inf)
    # One more than asked for shows whether the last place is tied.
    top = scores.topk(min(num_candidates + 1, scores.shape[1]), dim=-1)
    weights = probabilities.gather(-1, top.indices)
    # Ids travel with the scores, as float64, which holds them exactly: one copy from a device.
    columns = to_host(torch.stack([top.values.double(), weights.double(), top.indices.double()]))
    return [
        _candidates(row_scores, _Top(*top_of_row), num_candidates)
        for row_scores, *top_of_row in zip(scores, *columns.tolist(), strict=True)
    ]


def _add_noise(scores: Tensor, draws: Sequence[DrawSpec]) -> None:
    """Add noise in place, one block per run of rows of the same session."""
    vocab_size = scores.shape[1]
    start = 0
    for _, run in groupby(draws, key=lambda draw: id(draw.noise)):
        block = list(run)
        noise = block[0].noise
        if noise is not None:
            if noise.vocab_size < vocab_size:
                raise ValueError(
                    f"noise for {noise.vocab_size} ids is too narrow for {vocab_size} logits"
                )
            rows = noise.rows([draw.position for draw in block])[:, :vocab_size]
            scores[start : start + len(block)] += rows.to(scores.device)
        start += len(block)


def _first_argmax(scores: Tensor) -> tuple[list[int], list[float]]:
    """The lowest id of the largest score of each row, and that score; NaN counts as largest."""
    if scores.device.type == "cpu":
        # The same answer as torch's, ten times faster.
        table = scores.detach().numpy()
        ids = table.argmax(axis=-1)
        return ids.tolist(), table[np.arange(len(table)), ids].tolist()
    best = scores.max(dim=-1)
    ids, values = ids_and_numbers(best.indices, best.values)
    return ids.tolist(), values.tolist()


class _Top(NamedTuple):
    """One row's largest scores, best first, with the ids as they travel."""

    scores: list[float]
    weights: list[float]
    ids: list[float]


def _candidates(row_scores: Tensor, top: _Top, num_candidates: int) -> RankedCandidates:
    """Read one row's candidates off its largest scores."""
    if not math.isfinite(top.weights[0]):
        return RankedCandidates((), ())
    token_ids = [int(each) for each in top.ids]
    possible = [score for score in top.scores if score > -math.inf]
    if any(score == next_score for score, next_score in pairwise(possible)):
        token_ids = _lowest_ids_first(row_scores, possible, token_ids)
    count = min(len(possible), num_candidates)
    return RankedCandidates(tuple(token_ids[:count]), tuple(top.weights[:count]))


def _lowest_ids_first(
    row_scores: Tensor, scores: Sequence[float], token_ids: Sequence[int]
) -> list[int]:
    """Order equal scores by id, which topk leaves open; low ids replace high ones at the end."""
    last = scores[-1]
    ranked = zip(scores, token_ids, strict=False)  # all ids of the row's top, possible or not
    above = sorted((-score, token_id) for score, token_id in ranked if score > last)
    tied = (row_scores == last).nonzero().squeeze(1)[: len(scores) - len(above)]
    return [token_id for _, token_id in above] + tied.tolist()
