"""Does block verification accept more than the token rule? Chains of the pair `pystd`, offline.

    python -m benchmarks.blocks

For contexts out of Python's standard library a chain is sampled from the draft; printed are the
tokens that its verification brings on average under both rules, computed and not drawn, and how
long either rule takes to decide. Beside it, what no service blurs: how often one proposal is
accepted under rule `ratio`, and how often the coupled race has one winner for draft and target.
"""

import random
import sysconfig
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from operator import mul
from pathlib import Path
from statistics import fmean, median

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from ssd.core.tree import ROOT, TokenTree
from ssd.sampling.block import tokens_along_chain
from ssd.sampling.coins import SeededCoins, Weights
from ssd.sampling.draft_law import DraftLaw, DraftPolicy, Proposal, sample_candidates
from ssd.sampling.ratio import Law, tokens_along

PAIR = Path(__file__).resolve().parents[1] / "models" / "pystd"
CONTEXT_LEN, NUM_CONTEXTS = 192, 120
DEPTHS = (2, 4, 6)
TEMPERATURES = (0.3, 0.6, 1.0)
LawAfter = Callable[[int], Law]
RACES, NUM_RACES = np.random.default_rng(3), 100
CoinsAfter = Callable[[int], SeededCoins]


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


def accepted_by_ratio(draft: DraftLaw, target: Law) -> float:
    """Sum of min(p, q)."""
    return float(np.minimum(draft.probabilities, target[draft.token_ids]).sum())


def accepted_by_race(draft: DraftLaw, target: Law) -> float:
    """How often both sides of a race with shared noise have one winner; drawn."""
    noise = -np.log(-np.log(RACES.random((NUM_RACES, len(target)))))
    with np.errstate(divide="ignore"):
        winners = (np.log(target) + noise).argmax(axis=1)
        guesses = (np.log(draft.probabilities) + noise[:, draft.token_ids]).argmax(axis=1)
    return float((draft.token_ids[guesses] == winners).mean())


@torch.inference_mode()
def main() -> None:
    torch.set_num_threads(1)
    target, draft = (
        LlamaForCausalLM.from_pretrained(PAIR / role, dtype=torch.float32).eval()
        for role in ("target", "draft")
    )
    rng = random.Random(7)
    texts = list(contexts())
    for temperature in TEMPERATURES:
        drafted = [_drafted(text, temperature, target, draft, rng) for text in texts]
        first = [(chain[0].law, laws[0]) for chain, laws in drafted]
        print(
            f"temperature {temperature:g}, one node: ratio accepts "
            f"{fmean(accepted_by_ratio(*each) for each in first):.3f}, coupled "
            f"{fmean(accepted_by_race(*each) for each in first):.3f}"
        )
        for depth in DEPTHS:
            cut = [(chain[:depth], laws[: depth + 1]) for chain, laws in drafted]
            by_token = fmean(tokens_by_token(*each) for each in cut)
            by_block = fmean(tokens_by_block(*each) for each in cut)
            by_token_us, by_block_us = (_microseconds(decide, cut, rng) for decide in _DECISIONS)
            print(
                f"temperature {temperature:g}, depth {depth}: token rule {by_token:.3f}, "
                f"block rule {by_block:.3f}, {by_block / by_token - 1.0:+.1%}; "
                f"decided in {by_token_us:.0f} and {by_block_us:.0f} us",
                flush=True,
            )


def _decide_by_token(chain: list[Proposal], law_after: LawAfter, coins_after: CoinsAfter) -> None:
    tree = TokenTree((ROOT, *(each.token_id for each in chain)), (ROOT, *range(len(chain))))
    proposals = [*([each] for each in chain), []]
    tokens_along(tree, proposals, law_after=law_after, coins_after=coins_after)


def _decide_by_block(chain: list[Proposal], law_after: LawAfter, coins_after: CoinsAfter) -> None:
    tokens_along_chain(chain, law_after=law_after, coins_after=coins_after)


_DECISIONS = (_decide_by_token, _decide_by_block)


def _microseconds(
    decide: Callable[[list[Proposal], LawAfter, CoinsAfter], None],
    cut: list[tuple[list[Proposal], list[Law]]],
    rng: random.Random,
) -> float:
    """Median time of a verification, each law made out of its scores when it is asked for."""
    spent = []
    for chain, laws in cut:
        scores = [torch.from_numpy(law).log() for law in laws]
        coins = [SeededCoins([rng.random()], [rng.random()]) for _ in laws]
        began = time.perf_counter()
        decide(chain, lambda node: scores[node].softmax(dim=-1).numpy(), coins.__getitem__)  # noqa: B023
        spent.append(time.perf_counter() - began)
    return 1e6 * median(spent)


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
