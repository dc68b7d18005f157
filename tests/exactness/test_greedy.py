"""B1, B7: the text the service serves at temperature 0 is what `transformers` generates.

The pair that ships with the checkout is judged in fp32: at a first difference the two best logits
of the common prefix must lie within 1e-4, and that may happen three times in 100,000 tokens.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from tests.models.tiny_pair import write_tiny_pair
from tests.services.cluster import Cluster
from tests.services.drafting import NAMED, serve

MODELS = Path(__file__).resolve().parents[2] / "models"
NEAR_TIE = 1e-4
MAX_NEAR_TIES = 3
NUM_TOKENS = 64
OPENINGS = (
    "Once upon a time",
    "One day, a little",
    "The old fox",
    "Mia found a",
    "In the garden",
    "def main(",
    "import os\n",
    "It was late when",
    'Tom said: "',
    "There was a small boat",
)
ENDINGS = ("", " there", " and then", " who", "\n")
PROMPTS = tuple(opening + ending for opening in OPENINGS for ending in ENDINGS)


class Reference:
    """The library's own greedy generation."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True
        )
        self.model = loaded.eval()

    @torch.inference_mode()
    def continuations(self, prompts: Sequence[list[int]]) -> list[tuple[int, ...]]:
        """What follows each prompt up to and with the end token; padded on the left."""
        width = max(len(prompt) for prompt in prompts)
        padding = [[0] * (width - len(prompt)) for prompt in prompts]
        batch = [pad + prompt for pad, prompt in zip(padding, prompts, strict=True)]
        mask = [[0] * len(pad) + [1] * (width - len(pad)) for pad in padding]
        texts = self.model.generate(
            torch.tensor(batch),
            attention_mask=torch.tensor(mask),
            do_sample=False,
            max_new_tokens=NUM_TOKENS,
            pad_token_id=0,
        )
        return [self._until_end(text[width:].tolist()) for text in texts]

    @torch.inference_mode()
    def gap_after(self, token_ids: list[int]) -> float:
        """Between the two best logits of the next token."""
        best = self.model(torch.tensor([token_ids])).logits[0, -1].double().topk(2).values
        return float(best[0] - best[1])

    def _until_end(self, text: list[int]) -> tuple[int, ...]:
        ends = self.model.generation_config.eos_token_id
        stops = {ends} if isinstance(ends, int) else set(ends or ())
        cut = next((index + 1 for index, each in enumerate(text) if each in stops), len(text))
        return tuple(text[:cut])


def first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int | None:
    """Where two texts part, or one ends; None where they are equal."""
    if tuple(ours) == tuple(theirs):
        return None
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(ours), len(theirs)))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("drafters", NAMED)
async def test_a_float64_pair_serves_exactly_what_transformers_generates(
    cluster: Cluster, tmp_path: Path, drafters: str
) -> None:
    pair = write_tiny_pair(tmp_path)
    reference = Reference(pair.target, torch.float64)
    tokenizer = Tokenizer.from_file(str(pair.target / "tokenizer.json"))
    await serve(cluster, drafters, pair.target, pair.draft)
    prompts = PROMPTS[::5]
    expected = reference.continuations([tokenizer.encode(prompt).ids for prompt in prompts])
    for mode in ("ssd", "sd", "ar") if drafters == "model" else ("ssd", "sd"):
        for prompt, text in zip(prompts, expected, strict=True):
            reply = await cluster.generate(
                prompt, temperature=0.0, mode=mode, max_tokens=NUM_TOKENS
            )
            assert reply.token_ids == text, (prompt, mode)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "drafters"),
    [
        ("tales", "model"),
        ("tales", "ngram"),
        ("tales", "self"),
        ("pystd", "model"),
        ("pystd", "model and ngram"),
    ],
)
async def test_the_embedded_pair_serves_what_transformers_generates_up_to_near_ties(
    cluster: Cluster, name: str, drafters: str
) -> None:
    target, draft = MODELS / name / "target", MODELS / name / "draft"
    if not (target.is_dir() and draft.is_dir()):
        pytest.skip(f"the pair {name} is not built: see models/README.md")
    reference = Reference(target, torch.float32)
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    await serve(cluster, drafters, target, draft, dtype="fp32")
    prompts = [tokenizer.encode(prompt).ids for prompt in PROMPTS]
    replies = await asyncio.gather(
        *(cluster.generate(each, temperature=0.0, max_tokens=NUM_TOKENS) for each in prompts)
    )
    num_near_ties = 0
    for prompt, reply, text in zip(prompts, replies, reference.continuations(prompts), strict=True):
        place = first_difference(reply.token_ids, text)
        if place is not None:
            gap = reference.gap_after([*prompt, *text[:place]])
            assert gap <= NEAR_TIE, f"{prompt} differs at {place}, where the gap is {gap:.2g}"
            num_near_ties += 1
    assert num_near_ties <= MAX_NEAR_TIES
    assert sum(reply.num_accepted for reply in replies) > 0
