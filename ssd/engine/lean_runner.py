"""A forward for Llama-like models without what a service does not need.

Weights that share an input are one matrix where that pays, rotary embeddings are looked up, and
nothing passes through module calls. Says what `TransformersRunner` says, up to rounding, in half
the time for small models and few rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from ssd.core.ids import KvId
from ssd.core.rows import Meanwhile, RowGroup, nothing_meanwhile
from ssd.engine.attention_rule import AttentionRule
from ssd.engine.kv_store import KvStore
from ssd.engine.projection import Projection, arithmetic, gated_projection, projection
from ssd.engine.rope_table import RopeTable, rotate
from ssd.engine.row_batch import RowBatch

_CLASSES = frozenset(
    {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
)


def fits_lean_runner(model: PreTrainedModel) -> bool:
    """Whether this is an architecture that `LeanRunner` knows."""
    return type(model).__name__ in _CLASSES and model.config.hidden_act == "silu"


class LeanRunner:
    """Runs rows through the weights of a Llama, Mistral, Qwen2 or Qwen3."""

    def __init__(
        self, model: PreTrainedModel, *, prepack: bool, kv_store: KvStore | None = None
    ) -> None:
        """Takes the weights over: the model's layers are gone afterwards, to hold them once."""
        self.name = f"lean-{arithmetic(model.dtype)}" if prepack else "lean"
        self.kv_store = KvStore() if kv_store is None else kv_store
        self._device = model.device
        inner: Any = model.model
        with torch.inference_mode():
            self._embeddings: Tensor = inner.embed_tokens.weight.detach()
            self._rope = RopeTable(inner.rotary_emb, dtype=model.dtype, device=model.device)
            self._layers = _take_layers(model, prepack=prepack)
            self._norm = _Norm.of(inner.norm)
            self._head = projection([_linear(model.lm_head)], prepack=prepack)

    @torch.inference_mode()
    def forward(
        self, groups: Sequence[RowGroup], *, meanwhile: Meanwhile = nothing_meanwhile
    ) -> Tensor:
        """[wanted, vocab] logits, group by group, in float32 or, for float64 weights, float64."""
        batch = RowBatch(groups, self.kv_store, self._device, meanwhile)
        cosines, sines = self._rope.rows(batch.positions, max_position=batch.max_position)
        rows = functional.embedding(batch.token_ids, self._embeddings)  # [rows, hidden]
        for index, layer in enumerate(self._layers):
            rows = layer.run(index, rows, batch, cosines, sines)
        wanted = rows if batch.wants_all else rows[batch.wanted]
        logits = self._head(self._norm(wanted))
        batch.queued()
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def copy(self, source: KvId, target: KvId, num_slots: int, *, held: int = 0) -> None:
        self.kv_store.copy(source, target, num_slots, held=held)

    def release(self, kv_id: KvId) -> None:
        self.kv_store.release(kv_id)


@dataclass(frozen=True, slots=True)
class _Norm:
    """Root mean square norm over the last dimension."""

    weight: Tensor
    epsilon: float
    added: Tensor
    """Epsilon once more, for calls that take tensors."""

    @classmethod
    def of(cls, module: Any) -> "_Norm":
        epsilon = module.variance_epsilon
        return cls(module.weight.detach(), epsilon, torch.tensor(epsilon))

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dtype is torch.float32 and rows.is_cpu:
            # What the library does there too, in fewer calls: two thirds of the time for few rows.
            length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
            mean_square = torch.addcmul(self.added, length, length, value=1 / rows.shape[-1])
            return (rows * mean_square.rsqrt_()).mul_(self.weight)
        if rows.dtype is not torch.float64:
            return functional.rms_norm(rows, rows.shape[-1:], eps=self.epsilon) * self.weight
        # The library takes this norm in float32 whatever comes in; to equal it, so do we.
        short = rows.float()
        mean_square = short.square().mean(-1, keepdim=True)
        return self.weight * (short * torch.rsqrt(mean_square + self.epsilon)).to(rows.dtype)


@dataclass(frozen=True, slots=True)
class _GatedMlp:
    """`down(silu(gate(x)) * up(x))`"""

    gated: Projection
    down: Projection

    def __call__(self, rows: Tensor) -> Tensor:
        return self.down(self.gated(rows))


@dataclass(frozen=True, slots=True)
class _Layer:
    """One decoder layer: attention and gated MLP, each on a norm and beside a residual."""

    attention_norm: _Norm
    query_key_value: Projection
    query_key_norm: _Norm | None
    attention_output: Projection
    mlp_norm: _Norm
    mlp: _GatedMlp
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rule: AttentionRule

    def run(
        self, index: int, rows: Tensor, batch: RowBatch, cosines: Tensor, sines: Tensor
    ) -> Tensor:
        heads = self.query_key_value(self.attention_norm(rows))
        num_rows = rows.shape[0]
        heads = heads.view(num_rows, -1, self.head_dim).transpose(0, 1)
        turned = heads[: self.num_heads + self.num_kv_heads]
        if self.query_key_norm is not None:
            turned = self.query_key_norm(turned)
        turned = rotate(turned, cosines, sines)
        mixed = batch.attend(
            index,
            turned[: self.num_heads],
            turned[self.num_heads :],
            heads[self.num_heads + self.num_kv_heads :],
            self.rule,
        )
        rows = rows + self.attention_output(mixed.transpose(0, 1).reshape(num_rows, -1))
        return rows + self.mlp(self.mlp_norm(rows))


def _take_layers(model: Any, *, prepack: bool) -> list[_Layer]:
    layers = []
    for index, layer in enumerate(model.model.layers):
        layers.append(_take_layer(layer, model.config, prepack=prepack))
        model.model.layers[index] = nn.Identity()
    return layers


def _take_layer(layer: Any, config: Any, *, prepack: bool) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    head_dim = attention.head_dim
    num_heads = attention.q_proj.out_features // head_dim
    num_kv_heads = attention.k_proj.out_features // head_dim
    return _Layer(
        attention_norm=_Norm.of(layer.input_layernorm),
        query_key_value=projection(
            [attention.q_proj, attention.k_proj, attention.v_proj], prepack=prepack
        ),
        query_key_norm=_query_key_norm(attention, num_heads, num_kv_heads),
        attention_output=projection([attention.o_proj], prepack=prepack),
        mlp_norm=_Norm.of(layer.post_attention_layernorm),
        mlp=_take_mlp(mlp, prepack=prepack),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        rule=AttentionRule(scale=attention.scaling, window=_window(attention, config)),
    )


def _take_mlp(mlp: Any, *, prepack: bool) -> _GatedMlp:
    gated = gated_projection(mlp.gate_proj, mlp.up_proj, prepack=prepack)
    return _GatedMlp(gated, projection([mlp.down_proj], prepack=prepack))


def _query_key_norm(attention: Any, num_heads: int, num_kv_heads: int) -> _Norm | None:
    """Qwen3's norms of queries and of keys as one, with a weight [heads, 1, head_dim]."""
    if not hasattr(attention, "q_norm"):
        return None
    query, key = _Norm.of(attention.q_norm), _Norm.of(attention.k_norm)
    weights = [query.weight.expand(num_heads, -1), key.weight.expand(num_kv_heads, -1)]
    return _Norm(torch.cat(weights)[:, None], query.epsilon, query.added)


def _window(attention: Any, config: Any) -> int | None:
    """Qwen decides by layer, Mistral by model; a Llama has none."""
    window: int | None = getattr(attention, "sliding_window", None)
    if config.model_type == "mistral":
        window = config.sliding_window
    return window


def _linear(module: Any) -> nn.Linear:
    linear: nn.Linear = module
    return linear
