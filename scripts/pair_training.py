"""Training in a given time: the schedule follows the clock, so a stop is always at its end.

The learning rate is a function of the share of the time that has passed, not of a step count.
Whatever the machine and whoever shares it, a run fills its time and finishes annealed; running
out of time can never leave a model half way down its schedule.
"""

import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.progress import Progress
from transformers import LlamaForCausalLM

from scripts.pair_corpus import TokenStream

TOKENS_PER_STEP = 4096
WARM_UP_SHARE = 0.03
PEAK_RATE = 4e-3
FINAL_RATE_SHARE = 0.02
SKIP_SHARE = 0.25
CHECKPOINT_EVERY_S = 120.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of tokens and the positions they pretend to stand at."""

    token_ids: torch.Tensor  # [num_rows, row_len]
    position_ids: torch.Tensor  # [num_rows, row_len]


@dataclass(slots=True)
class TimeBox:
    """A stretch of time to spend, of which a resumed run has spent some already."""

    limit_s: float
    spent_before_s: float = 0.0
    opened_s: float | None = None

    @property
    def spent_s(self) -> float:
        running_s = 0.0 if self.opened_s is None else time.monotonic() - self.opened_s
        return self.spent_before_s + running_s

    @property
    def share(self) -> float:
        """How much of the time has passed, from 0 to 1."""
        return min(1.0, self.spent_s / self.limit_s)

    def open(self) -> None:
        self.opened_s = time.monotonic()


def learning_rate_share(share: float) -> float:
    """The rate at this share of the time, relative to its peak: warm-up, then a cosine."""
    if share < WARM_UP_SHARE:
        return max(share / WARM_UP_SHARE, 0.01)
    done = (share - WARM_UP_SHARE) / (1 - WARM_UP_SHARE)
    return FINAL_RATE_SHARE + (1 - FINAL_RATE_SHARE) * 0.5 * (1 + math.cos(math.pi * done))


def positions(rng: random.Random, num_rows: int, row_len: int, *, limit: int) -> torch.Tensor:
    """Positions for a batch, some with one leap in the middle.  # [num_rows, row_len]

    Rotary attention sees distances only, so an offset alone would teach nothing. A leap at a
    random place makes short rows show distances up to the position limit.
    """
    plain = torch.arange(row_len).repeat(num_rows, 1)
    if rng.random() >= SKIP_SHARE or row_len >= limit:
        return plain
    for row in plain:
        row[rng.randrange(row_len) :] += rng.randrange(limit - row_len)
    return plain


def batches(
    stream: TokenStream, row_lens: tuple[int, ...], *, limit: int, seed: int
) -> Iterator[Batch]:
    """Batches without end, each of about TOKENS_PER_STEP tokens."""
    rng = random.Random(seed)
    while True:
        row_len = rng.choice(row_lens)
        num_rows = max(1, round(TOKENS_PER_STEP / row_len))
        token_ids = stream.rows(rng, num_rows, row_len)
        yield Batch(token_ids, positions(rng, num_rows, row_len, limit=limit))


def logits_of(model: LlamaForCausalLM, batch: Batch) -> torch.Tensor:
    """Next-token logits in reduced precision.  # [num_rows, row_len, vocab]

    The mask of ones is not idle: without one, transformers takes a leap in the positions for the
    start of another document and hides everything before it.
    """
    device = model.device
    token_ids = batch.token_ids.to(device)
    with torch.autocast(device.type, torch.bfloat16):
        return model(
            input_ids=token_ids,
            attention_mask=torch.ones_like(token_ids),
            position_ids=batch.position_ids.to(device),
            use_cache=False,
        ).logits


def next_token_loss(model: LlamaForCausalLM, batch: Batch) -> torch.Tensor:
    """Mean cross-entropy of each row's next tokens."""
    logits = logits_of(model, batch)[:, :-1].flatten(0, 1)
    return F.cross_entropy(logits.float(), batch.token_ids[:, 1:].flatten().to(model.device))


def build_optimizers(model: LlamaForCausalLM) -> list[torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for embeddings and norms.

    Muon needs far fewer tokens than AdamW at this size, and time for tokens is what we lack.
    """
    embedding = model.get_input_embeddings().weight
    matrices = [w for w in model.parameters() if w.ndim == 2 and w is not embedding]
    others = [w for w in model.parameters() if w.ndim != 2 or w is embedding]
    return [
        torch.optim.Muon(matrices, lr=PEAK_RATE, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=PEAK_RATE, betas=(0.9, 0.95), weight_decay=0.0),
    ]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a stage's state lies on disk, so that a stopped run loses little."""

    path: Path

    def save(
        self, model: LlamaForCausalLM, optimizers: list[torch.optim.Optimizer], spent_s: float
    ) -> None:
        states = [optimizer.state_dict() for optimizer in optimizers]
        partial = self.path.with_suffix(".partial")
        torch.save({"model": model.state_dict(), "optimizers": states, "spent_s": spent_s}, partial)
        partial.replace(self.path)

    def restore(self, model: LlamaForCausalLM, optimizers: list[torch.optim.Optimizer]) -> float:
        """Load what was saved, if anything was; return the seconds already spent."""
        if not self.path.exists():
            return 0.0
        saved = torch.load(self.path, map_location=model.device, weights_only=True)
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        return float(saved["spent_s"])


def train(
    model: LlamaForCausalLM,
    supply: Iterator[Batch],
    loss_of: Callable[[LlamaForCausalLM, Batch], torch.Tensor],
    *,
    limit_s: float,
    checkpoint: Checkpoint,
    label: str,
) -> None:
    """Train until the time is up, resuming from the checkpoint if there is one."""
    optimizers = build_optimizers(model)
    box = TimeBox(limit_s, checkpoint.restore(model, optimizers))
    box.open()
    saved_at_s = box.spent_s
    model.train()
    with Progress() as progress:
        bar = progress.add_task(label, total=limit_s)
        while box.share < 1.0:
            loss = _step(model, optimizers, next(supply), loss_of, share=box.share)
            progress.update(bar, completed=box.spent_s, description=f"{label}, loss {loss:.3f}")
            if box.spent_s - saved_at_s > CHECKPOINT_EVERY_S:
                checkpoint.save(model, optimizers, box.spent_s)
                saved_at_s = box.spent_s
    checkpoint.save(model, optimizers, box.spent_s)
    model.eval()


def _step(
    model: LlamaForCausalLM,
    optimizers: list[torch.optim.Optimizer],
    batch: Batch,
    loss_of: Callable[[LlamaForCausalLM, Batch], torch.Tensor],
    *,
    share: float,
) -> float:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * learning_rate_share(share)
    loss = loss_of(model, batch)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.item()
