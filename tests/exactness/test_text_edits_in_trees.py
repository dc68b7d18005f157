"""D, A7: what depends on the text holds inside a tree, and the drafter runs the same race.

Plain decoding is checked against the definitions read aloud, and every tree, delay and loss against
plain decoding, in float64, token for token.
"""

import random
from collections.abc import Iterator

import pytest
import torch

from ssd.core.mode import Mode
from ssd.core.sampling_params import SamplingParams
from ssd.sampling import gumbel_rows
from tests.exactness.dense_runner import LlamaLogits, noisy_copy, tiny_llama
from tests.exactness.in_process import Pair, Shape, Weather, openings, texts_of
from tests.exactness.shared_draws import shared_noise
from tests.sampling.test_text_edits import slow_edit

VOCAB_SIZE = 24
NUM_TOKENS = 14
PROMPT = (1, 2, 3, 2)
NUM_SEEDS = 600
BATCH = 50
TARGET = tiny_llama(vocab_size=VOCAB_SIZE, seed=0, sharpness=4.0)
DRAFT = noisy_copy(TARGET, noise=0.1, seed=1)


@pytest.fixture(scope="module", autouse=True)
def noise() -> Iterator[None]:
    positions = range(len(PROMPT), len(PROMPT) + NUM_TOKENS)
    with shared_noise(positions, seeds=range(NUM_SEEDS), vocab_size=VOCAB_SIZE):
        yield


def params(seed: int) -> SamplingParams:
    """Every parameter in turn, and all of them together; one request in five has none."""
    rng = random.Random(seed)
    if seed % 5 == 0:
        return SamplingParams(seed=seed)
    return SamplingParams(
        temperature=rng.choice((0.0, 0.7, 1.0)),
        seed=seed,
        repetition_penalty=rng.choice((1.0, 1.4)),
        presence_penalty=rng.choice((0.0, 0.9, -0.4)),
        frequency_penalty=rng.choice((0.0, 0.6)),
        logit_bias=rng.choice(((), ((5, 3.0), (2, -4.0)))),
        banned_sequences=rng.choice(((), ((4,),), ((2, 2), (7, 3, 1), (9, 9)))),
        min_tokens=rng.choice((0, 5)),
        end_token_ids=(6, 8),
    )


def decode(pair: Pair, seeds: range, *, mode: Mode) -> list[tuple[int, ...]]:
    pair.run(openings(PROMPT, seeds=seeds, num_tokens=NUM_TOKENS, mode=mode, params=params))
    return texts_of(pair)


@pytest.fixture(scope="module")
def plain() -> list[tuple[int, ...]]:
    return decode(
        Pair(LlamaLogits(TARGET), None, vocab_size=VOCAB_SIZE), range(NUM_SEEDS), mode=Mode.AR
    )


def test_plain_decoding_follows_the_definitions(plain: list[tuple[int, ...]]) -> None:
    for seed in range(60):
        chosen = params(seed)
        output: list[int] = []
        while len(output) < NUM_TOKENS:
            text = torch.tensor([[*PROMPT, *output]])
            with torch.inference_mode():
                logits = TARGET(text).logits[0, -1].double()
            scores = torch.tensor(slow_edit(logits.tolist(), chosen, output, PROMPT)).double()
            if not chosen.is_greedy:
                position = len(PROMPT) + len(output)
                drawn = gumbel_rows(seed, [position], vocab_size=VOCAB_SIZE)[0]
                scores = scores / chosen.temperature + drawn
            output.append(int(scores.argmax()))
        assert plain[seed] == tuple(output), chosen


def test_every_tree_gives_the_plain_text(plain: list[tuple[int, ...]]) -> None:
    rng = random.Random(3)
    num_accepted = 0
    for start in range(0, NUM_SEEDS, BATCH):
        pair = Pair(
            LlamaLogits(TARGET),
            LlamaLogits(DRAFT),
            vocab_size=VOCAB_SIZE,
            shape=Shape(
                max_nodes=rng.choice((3, 8)),
                num_candidates=rng.choice((1, 3)),
                max_depth=rng.choice((2, 5)),
            ),
            weather=Weather(
                lost=rng.choice((0.0, 0.2)), late=rng.choice((0.0, 0.5)), steps_per_round=2
            ),
            seed=rng.randrange(2**32),
        )
        seeds = range(start, start + BATCH)
        mode = rng.choice((*(Mode.SSD, Mode.SSD, Mode.SD) * 2, Mode.SHADOW))
        assert decode(pair, seeds, mode=mode) == plain[start : start + BATCH]
        num_accepted += pair.num_accepted
    assert num_accepted > NUM_SEEDS


@pytest.mark.parametrize("mode", [Mode.SSD, Mode.SD])
def test_a_draft_equal_to_the_target_is_always_accepted(
    plain: list[tuple[int, ...]], mode: Mode
) -> None:
    """The drafter ranks with the same penalties, bans and bias, along its own paths."""
    pair = Pair(
        LlamaLogits(TARGET),
        LlamaLogits(TARGET),
        vocab_size=VOCAB_SIZE,
        shape=Shape(num_candidates=1, max_depth=4, sd_depth=4),
    )
    seeds = range(100)
    assert decode(pair, seeds, mode=mode) == plain[:100]
    assert pair.num_accepted == pair.num_proposed > 100


def test_end_tokens_wait_for_min_tokens(plain: list[tuple[int, ...]]) -> None:
    """A7: masked at every node, not once per round."""
    chosen = [seed for seed in range(NUM_SEEDS) if params(seed).min_tokens]
    early = {token_id for seed in chosen for token_id in plain[seed][:5]}
    later = {token_id for seed in chosen for token_id in plain[seed][5:]}
    assert not early & {6, 8}
    assert later & {6, 8}
