"""The figures of a finished pair, measured on the weights as saved."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from transformers import LlamaForCausalLM

from scripts.pair_corpus import TokenStream
from scripts.pair_distillation import continue_rows

ROW_LEN = 512
NUM_ROWS = 48
ROWS_TOGETHER = 8
NUM_PROMPTS = 96
PROMPTS_TOGETHER = 32
PROMPT_LEN = 96
CONTINUATION_LEN = 96


@dataclass(frozen=True, slots=True)
class Figures:
    """What the manifest reports: nats per token, and shares of tested tokens."""

    target_train_loss: float
    target_held_out_loss: float
    draft_train_loss: float
    draft_held_out_loss: float
    target_entropy: float
    greedy_acceptance: float
    sampled_acceptance: float

    def __post_init__(self) -> None:
        shares = (self.greedy_acceptance, self.sampled_acceptance)
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError(f"acceptance is a share: {shares}")


def measure(
    target: LlamaForCausalLM,
    draft: LlamaForCausalLM,
    *,
    train: TokenStream,
    held_out: TokenStream,
    stop_ids: frozenset[int],
) -> Figures:
    """All figures, on the same rows for both models."""
    seen, unseen = _rows(train), _rows(held_out)
    prompts = held_out.rows(random.Random(1), NUM_PROMPTS, PROMPT_LEN)
    target_entropy, sampled_acceptance = _entropy_and_overlap(target, draft, unseen)
    return Figures(
        target_train_loss=_loss(target, seen),
        target_held_out_loss=_loss(target, unseen),
        draft_train_loss=_loss(draft, seen),
        draft_held_out_loss=_loss(draft, unseen),
        target_entropy=target_entropy,
        greedy_acceptance=greedy_acceptance(
            target, draft, prompts, num_tokens=CONTINUATION_LEN, stop_ids=stop_ids
        ),
        sampled_acceptance=sampled_acceptance,
    )


def _rows(stream: TokenStream) -> tuple[torch.Tensor, ...]:
    rng = random.Random(0)
    return stream.rows(rng, NUM_ROWS, ROW_LEN).split(ROWS_TOGETHER)


def _log_probs(model: LlamaForCausalLM, rows: torch.Tensor) -> torch.Tensor:
    logits = model(input_ids=rows.to(model.device), use_cache=False).logits
    return F.log_softmax(logits.float(), dim=-1)


@torch.no_grad()
def _loss(model: LlamaForCausalLM, groups: tuple[torch.Tensor, ...]) -> float:
    losses = [
        F.nll_loss(_log_probs(model, rows)[:, :-1].flatten(0, 1).cpu(), rows[:, 1:].flatten())
        for rows in groups
    ]
    return float(torch.stack(losses).mean())


@torch.no_grad()
def _entropy_and_overlap(
    target: LlamaForCausalLM, draft: LlamaForCausalLM, groups: tuple[torch.Tensor, ...]
) -> tuple[float, float]:
    """The target's entropy, and the mass it shares with the draft, both at temperature 1.

    The shared mass is the chance that speculative sampling accepts one drafted token.
    """
    entropies, overlaps = [], []
    for rows in groups:
        wanted, offered = _log_probs(target, rows), _log_probs(draft, rows)
        entropies.append(-(wanted.exp() * wanted).sum(-1).mean())
        overlaps.append(torch.minimum(wanted, offered).exp().sum(-1).mean())
    return float(torch.stack(entropies).mean()), float(torch.stack(overlaps).mean())


@torch.no_grad()
def greedy_acceptance(
    target: LlamaForCausalLM,
    draft: LlamaForCausalLM,
    prompts: torch.Tensor,
    *,
    num_tokens: int,
    stop_ids: frozenset[int],
) -> float:
    """How often the draft names the target's next token, along the target's own greedy text."""
    agreed: list[bool] = []
    for group in prompts.split(PROMPTS_TOGETHER):
        rows = continue_rows(target, group, num_tokens, temperature=0)
        guesses = _log_probs(draft, rows).argmax(dim=-1).cpu()
        said = rows[:, -num_tokens:].tolist()
        guessed = guesses[:, -num_tokens - 1 : -1].tolist()
        for said_ids, guessed_ids in zip(said, guessed, strict=True):
            agreed.extend(_agreements(said_ids, guessed_ids, stop_ids))
    return sum(agreed) / len(agreed)


def _agreements(
    said_ids: list[int], guessed_ids: list[int], stop_ids: frozenset[int]
) -> Iterator[bool]:
    """One verdict for each token, up to and including the first that ends the text."""
    for said_id, guessed_id in zip(said_ids, guessed_ids, strict=True):
        yield said_id == guessed_id
        if said_id in stop_ids:
            return
