"""Planted heads copy before any training: that is all they are for."""

import pytest

pytest.importorskip("torch", reason="needs the engine extra")
pytest.importorskip("transformers", reason="needs the engine extra")

import torch

from scripts.pair_models import DRAFT_SIZE, build_model

VOCAB_SIZE = 512


def share_copied(*, starts_copying: bool) -> float:
    """How often an untrained model continues a repetition of random tokens."""
    model = build_model(DRAFT_SIZE, vocab_size=VOCAB_SIZE, seed=1, starts_copying=starts_copying)
    first = torch.randint(VOCAB_SIZE, (4, 32), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = model(input_ids=first.repeat(1, 2), use_cache=False).logits
    return (logits[:, 32:-1].argmax(dim=-1) == first[:, 1:]).float().mean().item()


def test_planted_heads_copy_and_chance_does_not() -> None:
    assert share_copied(starts_copying=False) < 0.05
    assert share_copied(starts_copying=True) > 0.5
