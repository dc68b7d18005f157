"""What each pair is made of: sizes, corpus, tokens, and the share of time its parts may take."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from scripts import copying_heads, pair_corpus, tales_grammar


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The shape of one Llama; both of a pair share everything else."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_key_value_heads: int
    num_positions: int


@dataclass(frozen=True, slots=True)
class PairSpec:
    """One pair's recipe, apart from seed and time."""

    name: str
    read_texts: Callable[[int], pair_corpus.Texts]
    vocab_size: int
    special_tokens: tuple[str, ...]
    stop_tokens: tuple[str, ...]
    chat_template: str | None
    starts_at_documents: bool
    row_lens: tuple[int, ...]  # drawn uniformly: repeat a length to see it more often
    starts_copying: bool  # whether the models begin with heads that copy
    target: ModelSize
    draft: ModelSize


# Grouped-query attention in both, because a service that only ever meets full heads is untested
# where real models are.
TARGET_SIZE = ModelSize(256, 704, 8, 4, 2, num_positions=4096)
DRAFT_SIZE = ModelSize(128, 352, 2, 4, 2, num_positions=2048)

PAIRS = {
    "tales": PairSpec(
        name="tales",
        read_texts=pair_corpus.read_tales,
        vocab_size=1024,
        special_tokens=tales_grammar.SPECIAL_TOKENS,
        stop_tokens=(tales_grammar.END_OF_TEXT, tales_grammar.END_OF_TURN),
        chat_template=tales_grammar.CHAT_TEMPLATE,
        starts_at_documents=True,
        row_lens=(192, 448, 448, 448, 448, 448, 896),  # a copy task is 290 to 470 tokens
        starts_copying=True,
        target=TARGET_SIZE,
        draft=DRAFT_SIZE,
    ),
    "pystd": PairSpec(
        name="pystd",
        read_texts=pair_corpus.read_pystd,
        vocab_size=4096,
        special_tokens=(pair_corpus.END_OF_TEXT,),
        stop_tokens=(pair_corpus.END_OF_TEXT,),
        chat_template=None,
        starts_at_documents=False,
        row_lens=(256, 512, 512, 512, 1024),
        starts_copying=False,
        target=TARGET_SIZE,
        draft=DRAFT_SIZE,
    ),
}


def build_model(
    size: ModelSize, *, vocab_size: int, seed: int, starts_copying: bool = False
) -> LlamaForCausalLM:
    """An untrained Llama of this size; the same seed gives the same weights."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=size.hidden_size,
        intermediate_size=size.intermediate_size,
        num_hidden_layers=size.num_layers,
        num_attention_heads=size.num_heads,
        num_key_value_heads=size.num_key_value_heads,
        max_position_embeddings=size.num_positions,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=None,
    )
    if not starts_copying:
        return LlamaForCausalLM(config)
    config.rope_parameters = {"rope_type": "default", "rope_theta": copying_heads.ROPE_THETA}
    config.initializer_range = size.hidden_size**-0.5
    model = LlamaForCausalLM(config)
    copying_heads.plant_copying_heads(model, seed=seed)
    return model
