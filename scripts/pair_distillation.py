"""Teaching the draft the target's distribution, which is what decides how much gets accepted.

Corpus text alone is not enough: a service drafts along what the *target* says, so part of the
rows are the target's own continuations, half of them greedy and half sampled.
"""

import random
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from rich.progress import Progress
from transformers import DynamicCache, LlamaForCausalLM

from scripts.pair_corpus import TokenStream
from scripts.pair_training import Batch, TimeBox, logits_of, positions

PROMPT_LENS = (16, 32, 64, 128)
CONTINUATION_LEN = 256
NUM_CONTINUED_TOGETHER = 64
CONTINUED_SHARE = 0.5
ROWS_PER_STEP = 12


@torch.no_grad()
def continue_rows(
    model: LlamaForCausalLM, prompts: torch.Tensor, num_tokens: int, *, temperature: float
) -> torch.Tensor:
    """Prompts with the model's continuations; temperature 0 is greedy.

    End-of-text does not stop a row, for rows of one length need no padding.
    # [num_rows, prompt_len + num_tokens]
    """
    cache = DynamicCache(config=model.config)
    fed = prompts.to(model.device)
    rows = [fed]
    for _ in range(num_tokens):
        logits = model(input_ids=fed, cache=cache, use_cache=True, logits_to_keep=1).logits
        fed = _pick(logits[:, -1].float(), temperature)
        rows.append(fed)
    return torch.cat(rows, dim=1).cpu()


def _pick(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    if temperature == 0:
        return logits.argmax(dim=-1, keepdim=True)
    return torch.multinomial(F.softmax(logits / temperature, dim=-1), 1)


def target_rows(
    target: LlamaForCausalLM, stream: TokenStream, *, limit_s: float, seed: int
) -> list[torch.Tensor]:
    """Rows the target wrote itself, as many as the time allows, at least one greedy group."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    groups: list[torch.Tensor] = []
    box = TimeBox(limit_s)
    box.open()
    with Progress() as progress:
        bar = progress.add_task("target's own text", total=limit_s)
        while not groups or box.share < 1.0:
            prompts = stream.rows(rng, NUM_CONTINUED_TOGETHER, rng.choice(PROMPT_LENS))
            temperature = float(len(groups) % 2)
            groups.append(continue_rows(target, prompts, CONTINUATION_LEN, temperature=temperature))
            progress.update(bar, completed=box.spent_s)
    return groups


def with_target_rows(
    corpus: Iterator[Batch], groups: list[torch.Tensor], *, limit: int, seed: int
) -> Iterator[Batch]:
    """Corpus batches mixed with batches drawn from the target's own rows."""
    rng = random.Random(seed)
    while True:
        if rng.random() >= CONTINUED_SHARE:
            yield next(corpus)
            continue
        group = rng.choice(groups)
        token_ids = group[rng.sample(range(len(group)), ROWS_PER_STEP)]
        yield Batch(token_ids, positions(rng, *token_ids.shape, limit=limit))


def distillation_loss(
    target: LlamaForCausalLM,
) -> Callable[[LlamaForCausalLM, Batch], torch.Tensor]:
    """The divergence of the draft from the target, KL(target || draft), per token."""

    def loss_of(draft: LlamaForCausalLM, batch: Batch) -> torch.Tensor:
        with torch.no_grad():
            wanted = F.log_softmax(logits_of(target, batch).float(), dim=-1).flatten(0, 1)
        offered = F.log_softmax(logits_of(draft, batch).float(), dim=-1).flatten(0, 1)
        return F.kl_div(offered, wanted, log_target=True, reduction="batchmean")

    return loss_of
