"""B6, C1: a seeded text is the same for every tree, delay, loss, drafter and move.

Three thousand seeds through both cores and machines, a real runner with its KV, in float64: each
text equals plain decoding with the same seed, token for token.
"""

import copy
import random
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from ssd.core.drafter_kind import DrafterKind
from ssd.core.ids import Epoch
from ssd.core.messages import Open
from ssd.core.mode import Mode
from ssd.core.ngram_limits import NgramForm, NgramLimits
from ssd.core.rows import Runner
from ssd.core.sampling_params import SamplingParams
from ssd.engine.kv_store import KvStore
from ssd.engine.lean_runner import LeanRunner
from ssd.sampling import DrawSpec, target_token_ids
from tests.exactness.dense_runner import noisy_copy, tiny_llama
from tests.exactness.in_process import (
    NO_NGRAMS,
    Ngrams,
    Pair,
    Shape,
    Weather,
    openings,
    texts_of,
)
from tests.exactness.shared_draws import NoiseOf, shared_noise

VOCAB_SIZE = 24
NUM_TOKENS = 12
PROMPT = (1, 2, 3, 2)
NUM_SEEDS = 3_000
BATCH = 60
TARGET = tiny_llama(vocab_size=VOCAB_SIZE, seed=0)
DRAFTS = {
    "noisy": noisy_copy(TARGET, noise=0.1, seed=1),
    "self": TARGET,
    "stranger": tiny_llama(vocab_size=VOCAB_SIZE, seed=2),
    "none": None,
}
# Texts of twelve tokens out of 24 repeat few runs of two: one token must do.
NGRAMS = [
    NO_NGRAMS,
    *(
        Ngrams(NgramLimits(form, size_n=2, shortest=1, num_candidates=2, max_nodes=6), *place)
        for form in NgramForm
        for place in ((True, False), (False, True), (True, True))
    ),
]


@pytest.fixture(scope="module", autouse=True)
def noise() -> Iterator[NoiseOf]:
    positions = range(len(PROMPT), len(PROMPT) + NUM_TOKENS)
    with shared_noise(positions, seeds=range(NUM_SEEDS), vocab_size=VOCAB_SIZE) as noise_of:
        yield noise_of


def runner(model: LlamaForCausalLM) -> Runner[Tensor]:
    return LeanRunner(copy.deepcopy(model), prepack=False, kv_store=KvStore(block_slots=32))


def params(seed: int) -> SamplingParams:
    """Mostly the plain law; one in four is cut, one in eight greedy."""
    if seed % 8 == 7:
        return SamplingParams(temperature=0.0, seed=seed)
    if seed % 4 == 1:
        return SamplingParams(temperature=0.8, top_k=9, top_p=0.95, min_p=0.01, seed=seed)
    return SamplingParams(seed=seed)


def decode(
    pair: Pair, seeds: Sequence[int], *, mode: Mode, num_tokens: int = NUM_TOKENS
) -> list[tuple[int, ...]]:
    pair.run(openings(PROMPT, seeds=seeds, num_tokens=num_tokens, mode=mode, params=params))
    return texts_of(pair)


@pytest.fixture(scope="module")
def plain(noise: NoiseOf) -> list[tuple[int, ...]]:
    """The reference: the library's forward of whole texts, one token after the other."""
    texts = torch.tensor([PROMPT] * NUM_SEEDS)
    chosen = [params(seed) for seed in range(NUM_SEEDS)]
    for position in range(len(PROMPT), len(PROMPT) + NUM_TOKENS):
        with torch.inference_mode():
            logits = TARGET(texts, use_cache=False).logits[:, -1]
        draws = [
            DrawSpec(each, position, None if each.is_greedy else noise(each.seed, VOCAB_SIZE))
            for each in chosen
        ]
        token_ids = torch.tensor(target_token_ids(logits, draws))
        texts = torch.cat([texts, token_ids.unsqueeze(1)], dim=1)
    outputs = [tuple(text) for text in texts[:, len(PROMPT) :].tolist()]
    assert len(set(outputs)) > NUM_SEEDS // 2, "seeds matter"
    return outputs


def test_plain_decoding_is_what_the_library_says(plain: list[tuple[int, ...]]) -> None:
    """No drafter, no tree."""
    seeds = range(500)
    pair = Pair(runner(TARGET), None, vocab_size=VOCAB_SIZE)
    assert decode(pair, seeds, mode=Mode.AR) == plain[: len(seeds)]


def random_pair(rng: random.Random) -> tuple[Pair, Mode]:
    """A tree, a network and a drafter, all by seed."""
    name = rng.choice(("noisy", "noisy", "self", "stranger", "none"))
    draft = DRAFTS[name]
    shape = Shape(
        max_nodes=rng.choice((1, 3, 8)),
        num_candidates=rng.choice((1, 2, 3)),
        frontier=rng.choice((BATCH // 4, BATCH, 2 * BATCH)),
        max_depth=rng.choice((1, 2, 4)),
        sd_depth=rng.choice((1, 2, 5)),
    )
    weather = Weather(
        lost=rng.choice((0.0, 0.0, 0.2)),
        doubled=rng.choice((0.0, 0.3)),
        late=rng.choice((0.0, 0.0, 0.5, 0.95)),
        steps_per_round=rng.choice((1, 1, 2)),
    )
    pair = Pair(
        runner(TARGET),
        None if draft is None else runner(draft),
        vocab_size=VOCAB_SIZE,
        shape=shape,
        weather=weather,
        seed=rng.randrange(2**32),
        ngrams=rng.choice(NGRAMS),
    )
    return pair, rng.choice((Mode.SSD, Mode.SSD, Mode.SSD, Mode.SD, Mode.SHADOW))


@pytest.mark.timeout(600)
def test_every_seed_gives_its_plain_text_whatever_was_drafted(
    plain: list[tuple[int, ...]],
) -> None:
    rng = random.Random(99)
    num_accepted = num_hits = num_misses = 0
    num_of: Counter[DrafterKind] = Counter()
    for start in range(0, NUM_SEEDS, BATCH):
        pair, mode = random_pair(rng)
        seeds = range(start, min(start + BATCH, NUM_SEEDS))
        assert decode(pair, seeds, mode=mode) == plain[start : seeds.stop], (start, mode)
        num_accepted += pair.num_accepted
        num_hits += pair.num_hits
        num_misses += pair.num_misses
        num_of += pair.num_of
    assert num_accepted > NUM_SEEDS
    assert num_hits > NUM_SEEDS / 10
    assert num_misses > NUM_SEEDS / 10
    assert all(num_of[kind] > NUM_SEEDS / 10 for kind in (DrafterKind.MODEL, DrafterKind.NGRAM))


@pytest.mark.timeout(600)
def test_a_moved_session_goes_on_with_its_plain_text(plain: list[tuple[int, ...]]) -> None:
    """After a failover, at every place of the text: opened elsewhere from what is committed."""
    rng = random.Random(7)
    for start in range(0, 12 * BATCH, BATCH):
        pair, mode = random_pair(rng)
        seeds = range(start, start + BATCH)
        cut = 1 + start // BATCH % (NUM_TOKENS - 1)
        moved = [
            move(opening, plain[seed][:cut])
            for seed, opening in zip(
                seeds,
                openings(PROMPT, seeds=seeds, num_tokens=NUM_TOKENS, mode=mode, params=params),
                strict=True,
            )
        ]
        pair.run(moved)
        assert texts_of(pair) == [text[cut:] for text in plain[start : seeds.stop]]


def move(opening: Open, committed: Sequence[int]) -> Open:
    """The session as another verifier gets it."""
    return Open(
        session_id=opening.session_id,
        epoch=Epoch(opening.epoch + 1),
        token_ids=(*opening.token_ids, *committed),
        prompt_len=opening.prompt_len,
        max_len=opening.max_len,
        params=opening.params,
        mode=opening.mode,
    )
