"""Runners for thousands of short sessions at once: one batched forward, no KV."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from ssd.core.ids import KvId
from ssd.core.rows import Meanwhile, RowGroup, nothing_meanwhile
from tests.models.scripted_model import Prefix
from tests.models.slot_memory import SlotMemory


class RememberingRunner:
    """Reads each row's text out of its slots and asks for the logits of all texts together.

    The laws of millions of short texts need few distinct prefixes, so answers are remembered.
    """

    name = "remembering"

    def __init__(self, vocab_size: int) -> None:
        self.memory = SlotMemory()
        self._vocab_size = vocab_size
        self._known: dict[Prefix, int] = {}
        self._table = torch.empty(0, vocab_size, dtype=torch.float64)

    def forward(
        self, groups: Sequence[RowGroup], *, meanwhile: Meanwhile = nothing_meanwhile
    ) -> Tensor:
        meanwhile()
        texts = [text for group in self.memory.forward(groups) for text in group]
        unknown = [text for text in dict.fromkeys(texts) if text not in self._known]
        if unknown:
            for text in unknown:
                self._known[text] = len(self._known)
            self._table = torch.cat([self._table, self.logits(unknown)])
        return self._table[[self._known[text] for text in texts]]

    def copy(self, source: KvId, target: KvId, num_slots: int, *, held: int = 0) -> None:
        self.memory.copy(source, target, num_slots)

    def release(self, kv_id: KvId) -> None:
        self.memory.release(kv_id)

    def logits(self, texts: Sequence[Prefix]) -> Tensor:
        """[texts, vocab] in float64."""
        raise NotImplementedError


class LlamaLogits(RememberingRunner):
    """A `transformers` Llama, asked for whole texts."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__(model.config.vocab_size)
        self.model = model

    @torch.inference_mode()
    def logits(self, texts: Sequence[Prefix]) -> Tensor:
        by_length: dict[int, list[int]] = {}
        for index, text in enumerate(texts):
            by_length.setdefault(len(text), []).append(index)
        answer = torch.empty(len(texts), self._vocab_size, dtype=torch.float64)
        for indices in by_length.values():
            batch = torch.tensor([texts[index] for index in indices])
            answer[indices] = self.model(batch, use_cache=False).logits[:, -1].double()
        return answer


class TableLogits(RememberingRunner):
    """Logits that depend on the last token alone: [vocab, vocab], row = last token."""

    def __init__(self, table: Tensor) -> None:
        super().__init__(table.shape[1])
        self.table = table

    def logits(self, texts: Sequence[Prefix]) -> Tensor:
        return self.table[[text[-1] for text in texts]]


def tiny_llama(*, vocab_size: int, seed: int, sharpness: float = 8.0) -> LlamaForCausalLM:
    """A random Llama in float64, too small to be slow."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        bos_token_id=None,
        eos_token_id=None,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).double().eval()
    with torch.no_grad():
        model.lm_head.weight *= sharpness
        for name, weight in model.named_parameters():
            if "proj" in name:
                weight.mul_(4.0)
    return model


def noisy_copy(model: LlamaForCausalLM, *, noise: float, seed: int) -> LlamaForCausalLM:
    """A draft that mostly agrees."""
    copy = LlamaForCausalLM(model.config).double().eval()
    copy.load_state_dict(model.state_dict())
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in copy.parameters():
            weight.add_(noise * weight.std() * torch.randn_like(weight))
    return copy
