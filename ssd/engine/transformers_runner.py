"""Any decoder-only model of `transformers`, run on rows.

Its modules stay as they are. Attention goes through the library's attention interface to ours,
which is the only place where one row meets another; architectures that have no such interface get
there through an adapter.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ssd.core.errors import ModelRefused
from ssd.core.ids import KvId
from ssd.core.rows import Meanwhile, RowGroup, nothing_meanwhile
from ssd.engine.attention_adapters import adapt_attention, inputs_of_adapted
from ssd.engine.attention_rule import AttentionRule
from ssd.engine.kv_store import KvStore
from ssd.engine.row_batch import RowBatch

ATTENTION_NAME = "ssd_rows"


class TransformersRunner:
    """Runs rows through an unchanged `transformers` model; the reference for other runners."""

    name = "transformers"

    def __init__(self, model: PreTrainedModel, *, kv_store: KvStore | None = None) -> None:
        """Takes the model over: from now on it attends through this runner only.

        Raises:
            ModelRefused: the model's attention cannot be routed to us.
        """
        self.kv_store = KvStore() if kv_store is None else kv_store
        self._model = model.eval()
        self._attention = _RowAttention()
        self._picks_rows = _takes(model, "logits_to_keep")
        self._takes_positions = _takes(model, "position_ids")
        _route_attention(model, self._attention)
        self._other_inputs = {
            name: value.to(model.device) for name, value in inputs_of_adapted(model).items()
        }

    @property
    def device(self) -> torch.device:
        return self._model.device

    @property
    def dtype(self) -> torch.dtype:
        return self._model.dtype

    @torch.inference_mode()
    def forward(
        self, groups: Sequence[RowGroup], *, meanwhile: Meanwhile = nothing_meanwhile
    ) -> Tensor:
        """[wanted, vocab] logits, group by group, in float32 or, for float64 weights, float64."""
        batch = RowBatch(groups, self.kv_store, self.device, meanwhile)
        self._attention.begin(batch)
        try:
            logits = self._run(batch)
        finally:
            self._attention.end()
        batch.queued()
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    @property
    def windows(self) -> frozenset[int | None]:
        """The sliding windows that layers have asked for so far, `None` for full attention."""
        return frozenset(self._attention.windows)

    def copy(self, source: KvId, target: KvId, num_slots: int, *, held: int = 0) -> None:
        self.kv_store.copy(source, target, num_slots, held=held)

    def release(self, kv_id: KvId) -> None:
        self.kv_store.release(kv_id)

    def _run(self, batch: RowBatch) -> Tensor:
        inputs = {"input_ids": batch.token_ids[None], **self._other_inputs}
        if self._takes_positions:
            inputs["position_ids"] = batch.positions[None]
        if self._picks_rows:
            output = self._model(**inputs, use_cache=False, logits_to_keep=batch.wanted)
            return output.logits[0]
        return self._model(**inputs, use_cache=False).logits[0, batch.wanted]


class _RowAttention:
    """Stands behind every attention module of one model and knows the forward in progress."""

    def __init__(self) -> None:
        self._batch: RowBatch | None = None
        self._num_layers_done = 0
        self.windows: set[int | None] = set()

    def begin(self, batch: RowBatch) -> None:
        self._batch = batch
        self._num_layers_done = 0

    def end(self) -> None:
        self._batch = None

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule) -> Tensor:
        # Layers are counted as they attend: not every model numbers its attention modules.
        if self._batch is None:
            raise RuntimeError("a model owned by a runner was called from elsewhere")
        layer = self._num_layers_done
        self._num_layers_done += 1
        self.windows.add(rule.window)
        return self._batch.attend(layer, query, keys, values, rule)

    def attend_layer(
        self, query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule
    ) -> Tensor:
        """[1, heads, rows, dim] of the library's layout give [1, rows, heads, value_dim]."""
        return self.attend(query[0], keys[0], values[0], rule).transpose(0, 1)[None]


@dataclass(frozen=True, slots=True)
class _WindowMask:
    """What layers get for a mask where the model masks a sliding window; passed on to us."""

    window: int


def _rows_attention(
    module: torch.nn.Module,
    query: Tensor,  # [1, heads, rows, head_dim]
    key: Tensor,  # [1, kv_heads, rows, head_dim]
    value: Tensor,  # [1, kv_heads, rows, value_dim]
    attention_mask: Tensor | _WindowMask | None,
    **options: Any,  # the library's interface is open-ended
) -> tuple[Tensor, None]:
    """The signature that `transformers` calls; [1, rows, heads, value_dim] comes out."""
    window = options.get("sliding_window")
    if isinstance(attention_mask, _WindowMask):
        window = attention_mask.window
    elif attention_mask is not None:
        raise ModelRefused(f"{type(module).__name__} masks more than what lies ahead")
    if options.get("position_bias") is not None:
        raise ModelRefused(f"{type(module).__name__} adds a position bias to its attention")
    rule = AttentionRule(
        scale=options.get("scaling"),
        window=window,
        softcap=options.get("softcap"),
        sinks=options.get("s_aux"),
    )
    attention: _RowAttention = module.row_attention  # type: ignore[assignment]
    return attention.attend_layer(query, key, value, rule), None


def _row_mask(*_: Any, local_size: int | None = None, **__: Any) -> _WindowMask | None:
    """Our masks are made per session, not per forward; what they need to know is the window."""
    return None if local_size is None else _WindowMask(local_size)


def _route_attention(model: PreTrainedModel, attention: _RowAttention) -> None:
    ALL_ATTENTION_FUNCTIONS.register(ATTENTION_NAME, _rows_attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION_NAME, _row_mask)
    if adapt_attention(model, attention.attend_layer):
        model.config._attn_implementation_internal = ATTENTION_NAME
        return
    if not _takes(model, "position_ids") or not model._can_set_attn_implementation():
        raise ModelRefused(f"{type(model).__name__} does not let its attention be replaced")
    for module in model.modules():
        module.row_attention = attention  # type: ignore[assignment]
    model.set_attn_implementation(ATTENTION_NAME)


def _takes(model: PreTrainedModel, parameter: str) -> bool:
    return parameter in inspect.signature(model.forward).parameters
