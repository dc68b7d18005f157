"""D: penalties, bias and bans at the end of each row's own path, against the definitions."""

import math
import random
from collections.abc import Sequence

import pytest
import torch

from ssd.core.sampling_params import SamplingParams
from ssd.sampling import DrawSpec, PathEdits, TextEdits, edit_logits, target_token_ids

VOCAB_SIZE = 12
PROMPT = (1, 2, 2, 7)


def slow_edit(
    logits: Sequence[float], params: SamplingParams, output: Sequence[int], prompt: Sequence[int]
) -> list[float]:
    """The definitions of the module read aloud, for one row."""
    row = list(logits)
    for sequence in params.banned_sequences:
        head = sequence[:-1]
        if not head or tuple(output[-len(head) :]) == head:
            row[sequence[-1]] = -math.inf
    if len(output) < params.min_tokens:
        for token_id in params.end_token_ids:
            row[token_id] = -math.inf
    for token_id, bias in params.logit_bias:
        row[token_id] += bias
    for token_id in range(len(row)):
        if token_id in output or token_id in prompt:
            penalty = params.repetition_penalty
            row[token_id] = (
                row[token_id] / penalty if row[token_id] > 0 else row[token_id] * penalty
            )
        count = list(output).count(token_id)
        row[token_id] -= params.frequency_penalty * count
        row[token_id] -= params.presence_penalty * (count > 0)
    return row


def random_params(rng: random.Random) -> SamplingParams:
    return SamplingParams(
        temperature=0.0,
        repetition_penalty=rng.choice((1.0, 1.3, 0.7)),
        presence_penalty=rng.choice((0.0, 0.8, -0.5)),
        frequency_penalty=rng.choice((0.0, 0.4, -0.3)),
        logit_bias=tuple((each, rng.uniform(-3, 3)) for each in rng.sample(range(12), 3)),
        banned_sequences=rng.choice(((), ((3,), (1, 4)), ((2, 2, 5), (0, 6)))),
        min_tokens=rng.choice((0, 3, 6)),
        end_token_ids=(9, 11),
    )


def edited(
    logits: torch.Tensor,
    params: SamplingParams,
    committed: Sequence[int],
    paths: Sequence[tuple[int, ...]],
    text: TextEdits | None = None,
) -> torch.Tensor:
    text = text or TextEdits(params, prompt_len=len(PROMPT), vocab_size=VOCAB_SIZE)
    text.follow([*PROMPT, *committed])
    draws = [DrawSpec(params, 0, None, PathEdits(text, path)) for path in paths]
    return edit_logits(logits, draws)


@pytest.mark.parametrize("seed", range(60))
def test_every_row_is_edited_by_its_own_path(seed: int) -> None:
    """D1, D2, A7: token 2 of a block sees token 1; the text grows over many rounds."""
    rng = random.Random(seed)
    params = random_params(rng)
    text = TextEdits(params, prompt_len=len(PROMPT), vocab_size=VOCAB_SIZE)
    committed: list[int] = []
    generator = torch.Generator().manual_seed(seed)
    for _ in range(5):
        paths = [()] + [
            tuple(rng.choices(range(VOCAB_SIZE), k=rng.randint(1, 4))) for _ in range(5)
        ]
        logits = torch.randn(len(paths), VOCAB_SIZE, generator=generator, dtype=torch.float64)
        found = edited(logits, params, committed, paths, text)
        expected = [
            slow_edit(row, params, [*committed, *path], PROMPT)
            for row, path in zip(logits.tolist(), paths, strict=True)
        ]
        assert found.tolist() == expected
        committed += rng.choices(range(VOCAB_SIZE), k=rng.randint(1, 4))


def test_rows_of_other_sessions_are_left_alone() -> None:
    """B6: rows with and without edits share a batch."""
    params = SamplingParams(temperature=0.0, logit_bias=((0, 100.0),))
    plain = SamplingParams(temperature=0.0)
    text = TextEdits(params, prompt_len=1, vocab_size=4)
    text.follow([1])
    draws = [
        DrawSpec(plain, 0, None),
        DrawSpec(params, 0, None, PathEdits(text, ())),
        DrawSpec(plain, 0, None),
    ]
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]] * 3)
    assert target_token_ids(logits, draws) == [3, 0, 3]


def test_without_edits_nothing_is_copied() -> None:
    logits = torch.randn(2, 5)
    draws = [DrawSpec(SamplingParams(temperature=0.0), 0, None)] * 2
    assert edit_logits(logits, draws) is logits


def test_the_argument_is_left_alone() -> None:
    params = SamplingParams(temperature=0.0, presence_penalty=1.0)
    logits = torch.randn(1, VOCAB_SIZE)
    before = logits.clone()
    assert not torch.equal(edited(logits, params, (3,), [()]), before)
    assert torch.equal(logits, before)


def test_a_repeated_negative_logit_falls() -> None:
    """D1: the repetition penalty looks at the sign."""
    params = SamplingParams(temperature=0.0, repetition_penalty=2.0)
    logits = torch.full((1, VOCAB_SIZE), -1.0, dtype=torch.float64)
    row = edited(logits, params, (), [()])[0].tolist()
    assert row[1] == row[2] == row[7] == -2.0
    assert row[0] == -1.0


def test_a_banned_token_is_minus_infinity() -> None:
    """E1: not the lowest number."""
    params = SamplingParams(
        temperature=0.0, banned_sequences=((5,),), logit_bias=((5, 100.0),), presence_penalty=-2.0
    )
    row = edited(torch.zeros(1, VOCAB_SIZE), params, (5,), [()])[0].tolist()
    assert row[5] == -math.inf


def test_ids_beyond_a_smaller_draft_are_ignored() -> None:
    params = SamplingParams(
        temperature=0.0,
        logit_bias=((VOCAB_SIZE + 3, 1.0),),
        banned_sequences=((1, VOCAB_SIZE),),
        min_tokens=9,
        end_token_ids=(VOCAB_SIZE + 1,),
    )
    logits = torch.zeros(1, VOCAB_SIZE)
    assert torch.equal(edited(logits, params, (1,), [()]), logits)
