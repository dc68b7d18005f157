"""B5, B6: texts of different architectures, many at once, equal their own plain decoding.

Targets run through the reference runner as in production, with trees of several drafted sessions in
one forward beside plain ones; the draft is another architecture. Float64, token for token.
"""

import pytest

from ssd.core.mode import Mode
from ssd.core.sampling_params import SamplingParams
from ssd.engine.lean_runner import LeanRunner
from ssd.engine.transformers_runner import TransformersRunner
from tests.engine.tiny_models import VOCAB_SIZE, tiny_model
from tests.exactness.in_process import Pair, openings, texts_of

PROMPT = (5, 17, 3, 44, 60, 8)
SEEDS = tuple(range(6))
NUM_TOKENS = 16
ARCHITECTURES = ["gpt2", "bloom", "falcon 40B", "gemma2 27B", "mixtral", "gpt_oss", "qwen3 sliding"]


def _params(seed: int) -> SamplingParams:
    """Greedy and sampled ones in one batch."""
    if seed % 3 == 0:
        return SamplingParams(temperature=0.0, seed=seed)
    return SamplingParams(temperature=0.9, top_k=20, seed=seed)


def _texts(pair: Pair, seeds: tuple[int, ...], mode: Mode) -> list[tuple[int, ...]]:
    pair.run(openings(PROMPT, seeds=seeds, num_tokens=NUM_TOKENS, mode=mode, params=_params))
    return texts_of(pair)


def _pair(architecture: str, *, is_drafted: bool) -> Pair:
    draft = LeanRunner(tiny_model("llama"), prepack=False) if is_drafted else None
    target = TransformersRunner(tiny_model(architecture))
    return Pair(target, draft, vocab_size=VOCAB_SIZE)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_drafted_together_equals_plain_alone(architecture: str) -> None:
    plain = [
        _texts(_pair(architecture, is_drafted=False), (seed,), Mode.AR)[0] for seed in SEEDS[:2]
    ]
    together = _pair(architecture, is_drafted=True)
    drafted = _texts(together, SEEDS, Mode.SSD)
    assert together.num_proposed > 0
    assert drafted[:2] == plain
    assert drafted == _texts(_pair(architecture, is_drafted=False), SEEDS, Mode.AR)
