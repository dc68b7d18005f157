"""A random target and a draft that mostly agrees with it, in Hugging Face folders.

The draft is the target with noise on its weights, so that drafts hit and miss. The tokenizer is
plain bytes, so any prompt encodes.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

END = "<|end|>"
NUM_BYTES = 256


@dataclass(frozen=True, slots=True)
class TinyPair:
    """Where the two models lie."""

    target: Path
    draft: Path


def write_tiny_pair(
    folder: Path,
    *,
    seed: int = 0,
    draft_noise: float = 0.02,
    draft_context_len: int = 512,
    num_idle_layers: int = 0,
) -> TinyPair:
    """Make a pair in `folder`; equal arguments make equal models.

    Idle layers of the target add nothing but time: drafts can be ready before it is.
    """
    torch.manual_seed(seed)
    target = LlamaForCausalLM(_config(context_len=512, num_layers=2 + num_idle_layers)).double()
    _sharpen(target)
    draft = LlamaForCausalLM(_config(context_len=draft_context_len)).double()
    weights = target.state_dict()
    draft.load_state_dict({name: weights[name] for name in draft.state_dict()})
    _make_idle(target, first=2)
    with torch.no_grad():
        for weight in draft.parameters():
            weight.add_(draft_noise * weight.std() * torch.randn_like(weight))
    pair = TinyPair(folder / "target", folder / "draft")
    for path, model in ((pair.target, target), (pair.draft, draft)):
        model.save_pretrained(path)
        byte_tokenizer().save(str(path / "tokenizer.json"))
    return pair


def byte_tokenizer() -> Tokenizer:
    """One token per byte and a special end token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: token_id for token_id, character in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    return tokenizer


def _config(*, context_len: int, num_layers: int = 2) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=NUM_BYTES + 1,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=num_layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context_len,
        eos_token_id=NUM_BYTES,
        bos_token_id=None,
        tie_word_embeddings=False,
    )


def _sharpen(model: LlamaForCausalLM) -> None:
    """Random logits are nearly flat; a trained model's are not."""
    with torch.no_grad():
        model.lm_head.weight *= 40.0


def _make_idle(model: LlamaForCausalLM, *, first: int) -> None:
    """Layers from this one on add zero to what they get."""
    with torch.no_grad():
        for layer in model.model.layers[first:]:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
