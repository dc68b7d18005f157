"""From texts to rows of tokens: the texts of each pair, its tokenizer, and how rows are cut."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from scripts import pystd_corpus, tales_grammar

END_OF_TEXT = tales_grammar.END_OF_TEXT
NUM_TALES = 40_000
# Where a third of all was copies the models forgot the heads that copy, and told other tales.
COPIES_OF_EACH = 10
NUM_HELD_OUT_TALES = 600
START_STRIDE = 64


@dataclass(frozen=True, slots=True)
class Texts:
    """Documents to learn from and documents kept from learning, the latter by name if named."""

    train: tuple[str, ...]
    held_out: tuple[str, ...]
    held_out_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenStream:
    """Documents one after another, each closed by end-of-text, and where a row may start."""

    token_ids: torch.Tensor  # [num_tokens]
    starts: torch.Tensor  # [num_starts], ascending

    def rows(self, rng: random.Random, num_rows: int, row_len: int) -> torch.Tensor:
        """Rows cut from random starts.  # [num_rows, row_len]"""
        last = int(torch.searchsorted(self.starts, len(self.token_ids) - row_len, right=True))
        if last == 0:
            raise ValueError(f"{len(self.token_ids)} tokens cannot fill a row of {row_len}")
        picked = [int(self.starts[rng.randrange(last)]) for _ in range(num_rows)]
        return torch.stack([self.token_ids[start : start + row_len] for start in picked])


def read_tales(seed: int) -> Texts:
    """Tales from the grammar, most of them told twice; the held-out ones come from a seed of their
    own, as many of each kind."""
    learnt = tales_grammar.documents(seed, copies_of_each=COPIES_OF_EACH)
    return Texts(
        train=tuple(islice(learnt, NUM_TALES)),
        held_out=tuple(islice(tales_grammar.documents(seed + 1_000_003), NUM_HELD_OUT_TALES)),
    )


def read_pystd(seed: int) -> Texts:
    """The standard library's files, shuffled by the seed so that neighbours are unrelated."""
    files = list(pystd_corpus.stdlib_files().items())
    random.Random(seed).shuffle(files)
    held_out = sorted(name for name, _ in files if pystd_corpus.is_held_out(name))
    by_name = dict(files)
    return Texts(
        train=tuple(body for name, body in files if not pystd_corpus.is_held_out(name)),
        held_out=tuple(by_name[name] for name in held_out),
        held_out_names=tuple(held_out),
    )


def train_tokenizer(
    texts: Sequence[str], *, vocab_size: int, special_tokens: Sequence[str]
) -> Tokenizer:
    """Byte-level BPE: all 256 bytes are in the vocabulary, so every text has an encoding."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, texts: Sequence[str], *, starts_at_documents: bool) -> TokenStream:
    """One stream of all documents.

    Rows of tales start where a tale does, for a tale's beginning settles what follows; files are
    longer than rows, so their rows start anywhere on a stride.
    """
    token_ids: list[int] = []
    document_starts: list[int] = []
    for encoding in tokenizer.encode_batch([text + END_OF_TEXT for text in texts]):
        document_starts.append(len(token_ids))
        token_ids.extend(encoding.ids)
    strided = range(0, len(token_ids), START_STRIDE)
    starts = document_starts if starts_at_documents else list(strided)
    return TokenStream(torch.tensor(token_ids), torch.tensor(starts))
