"""Does block verification accept more than the token rule? Chains of the pair `pystd`, offline.

    python benchmarks/blocks.py

For contexts out of Python's standard library a chain is sampled from the draft; printed are the
tokens that its verification brings on average under both rules, computed and not drawn.
"""

import random
import sysconfig
from collections.abc import Iterator
from itertools import accumulate
from operator import mul
from pathlib import Path
from statistics import fmean

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from ssd.core.tree import ROOT, TokenTree
from ssd.sampling.block import tokens_along_chain
from ssd.sampling.coins import SeededCoins, Weights
from ssd.sampling.draft_law import DraftLaw, DraftPolicy, Proposal, sample_candidates
from ssd.sampling.ratio import Law, tokens_along

PAIR = Path(__file__).resolve().parents[1] / "models" / "pystd"
CONTEXT_LEN, NUM_CONTEXTS = 192, 60
DEPTHS = (2, 4, 6)
TEMPERATURES = (0.3, 0.6, 1.0)


def contexts() -> Iterator[list[int]]:
    """Starts of random modules, as the models see them."""
    tokenizer = Tokenizer.from_file(str(PAIR / "target" / "tokenizer.json"))
    modules = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    for path in random.Random(1).sample(modules, NUM_CONTEXTS):
        token_ids = tokenizer.encode(path.read_text("utf-8", errors="ignore")[:4000]).ids
        if len(token_ids) > CONTEXT_LEN:
            yield token_ids[:CONTEXT_LEN]


class Recorder:
    """Answers every coin alike and remembers the probabilities it was asked about."""

    def __init__(self, *, answer: bool) -> None:
        self.asked: list[float] = []
        self._answer = answer

    def accept(self, probability: float) -> bool:
        self.asked.append(probability)
        return self._answer

    def choose(self, weights: Weights) -> int:
        return int(weights.argmax())


def tokens_by_token(chain: list[Proposal], laws: list[Law]) -> float:
    """Expected tokens of a verification: 1 + the chances to get as far as each node."""
    recorder = Recorder(answer=True)
    tree = TokenTree((ROOT, *(each.token_id for each in chain)), (ROOT, *range(len(chain))))
    tokens_along(
        tree,
        [*([each] for each in chain), []],
        law_after=laws.__getitem__,
        coins_after=lambda node: recorder,
    )
    return 1.0 + sum(accumulate(recorder.asked, mul))


def tokens_by_block(chain: list[Proposal], laws: list[Law]) -> float:
    """The same: a node is reached if the coin of any node from there on accepts."""
    recorder = Recorder(answer=False)
    tokens_along_chain(chain, law_after=laws.__getitem__, coins_after=lambda node: recorder)
    missed = accumulate((1.0 - each for each in reversed(recorder.asked)), mul)
    return 1.0 + sum(1.0 - each for each in missed)


@torch.inference_mode()
def main() -> None:
    target, draft = (
        LlamaForCausalLM.from_pretrained(PAIR / role, dtype=torch.float32).eval()
        for role in ("target", "draft")
    )
    rng = random.Random(7)
    texts = list(contexts())
    for temperature in TEMPERATURES:
        drafted = [_drafted(text, temperature, target, draft, rng) for text in texts]
        for depth in DEPTHS:
            cut = [(chain[:depth], laws[: depth + 1]) for chain, laws in drafted]
            by_token = fmean(tokens_by_token(*each) for each in cut)
            by_block = fmean(tokens_by_block(*each) for each in cut)
            print(
                f"temperature {temperature:g}, depth {depth}: token rule {by_token:.3f}, "
                f"block rule {by_block:.3f}, {by_block / by_token - 1.0:+.1%}"
            )


def _drafted(
    text: list[int],
    temperature: float,
    target: LlamaForCausalLM,
    draft: LlamaForCausalLM,
    rng: random.Random,
) -> tuple[list[Proposal], list[Law]]:
    """A sampled chain, and the target's law after each of its nodes."""
    chain: list[Proposal] = []
    for _ in range(max(DEPTHS)):
        ids = torch.tensor([[*text, *(each.token_id for each in chain)]])
        scores = draft(ids).logits[:, -1] / temperature
        (found,) = sample_candidates(
            scores, DraftPolicy(), [SeededCoins([], [rng.random()])], num_candidates=1
        )
        assert found.law is not None
        chain.append(Proposal(found.token_ids[0], DraftLaw.of_sparse(found.law)))
    ids = torch.tensor([[*text, *(each.token_id for each in chain)]])
    scores = target(ids).logits[0, -len(chain) - 1 :].double() / temperature
    return chain, list(scores.softmax(dim=-1).numpy())


if __name__ == "__main__":
    main()
