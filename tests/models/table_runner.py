"""A runner that looks its logits up: what it says depends on the whole text and on nothing else."""

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ssd.core.ids import KvId
from ssd.core.rows import Meanwhile, RowGroup, nothing_meanwhile
from ssd.engine.fingerprint import Fingerprint
from ssd.engine.loading import LoadedModel
from ssd.tokenizer.vocabulary import Vocabulary
from tests.models.scripted_model import Prefix, ScriptedModel
from tests.models.slot_memory import SlotMemory
from tests.models.tiny_pair import byte_tokenizer

VOCAB_SIZE = 12
CONTEXT_LEN = 512
_SHARPNESS = 0.02  # scores go up to a thousand, logits to twenty

Logits = Callable[[Prefix], Sequence[float]]


class TableRunner:
    """Float64 logits from a function of the text that a row sees through its slots."""

    name = "table"

    def __init__(self, logits_of: Logits, *, vocab_size: int, forward_s: float = 0.0) -> None:
        self.memory = SlotMemory()
        self.forward_s = forward_s
        self.num_forwards = 0
        self._logits_of = logits_of
        self._vocab_size = vocab_size

    def forward(
        self, groups: Sequence[RowGroup], *, meanwhile: Meanwhile = nothing_meanwhile
    ) -> Tensor:
        """[wanted, vocab], group by group; takes `forward_s` at least."""
        self.num_forwards += 1
        meanwhile()
        time.sleep(self.forward_s)
        texts = [text for group in self.memory.forward(groups) for text in group]
        if not texts:
            return torch.empty(0, self._vocab_size, dtype=torch.float64)
        return torch.tensor([self._logits_of(text) for text in texts], dtype=torch.float64)

    def copy(self, source: KvId, target: KvId, num_slots: int, *, held: int = 0) -> None:
        self.memory.copy(source, target, num_slots)

    def release(self, kv_id: KvId) -> None:
        self.memory.release(kv_id)


def agreeing(model: ScriptedModel) -> Logits:
    """What the model says."""
    return lambda text: [_SHARPNESS * score for score in model.scores(text)]


def opposing(model: ScriptedModel) -> Logits:
    """The model's scores turned around: its likeliest token comes last."""
    return lambda text: [-_SHARPNESS * score for score in model.scores(text)]


def short_sighted(model: ScriptedModel) -> Logits:
    """What the model would say if it saw its last tokens only: often right, never for long."""
    return lambda text: [_SHARPNESS * score for score in model.near_scores(text)]


def saying(token_ids: Sequence[int], *, vocab_size: int) -> Logits:
    """Says one text from position 0 on, whatever was said before, and then its last token."""

    def logits_of(text: Prefix) -> list[float]:
        following = token_ids[min(len(text), len(token_ids) - 1)]
        return [30.0 if each == following else 0.0 for each in range(vocab_size)]

    return logits_of


def load_table(
    logits_of: Logits,
    *,
    name: str = "table",
    vocab_size: int = VOCAB_SIZE,
    context_len: int = CONTEXT_LEN,
    eos_token_ids: tuple[int, ...] = (),
    forward_s: float = 0.0,
) -> LoadedModel:
    """A table as if it came from a folder; equal names have equal fingerprints."""
    return LoadedModel(
        name=name,
        runner=TableRunner(logits_of, vocab_size=vocab_size, forward_s=forward_s),
        vocab_size=vocab_size,
        context_len=context_len,
        eos_token_ids=eos_token_ids,
        fingerprint=Fingerprint(model_sha256=name, dtype="fp64", runner="table", num_layers=1),
        vocabulary=Vocabulary.from_tokenizer(byte_tokenizer()),
    )
