"""The least that a forward of given rows can be: no sessions, no checks, nothing decided.

Uses the lean runner's own weights in its own layout, so that what differs is what a service adds:
here masks, rotary embeddings, slots and views are made once, before the clock runs.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ssd.core.ids import KvId
from ssd.core.rows import RowGroup
from ssd.engine.lean_runner import LeanRunner
from ssd.engine.rope_table import rotate
from ssd.engine.tree_mask import tree_mask


class BareForward:
    """Runs the same rows again and again: `groups`, one a session, whose texts the runner holds."""

    def __init__(self, runner: LeanRunner, groups: Sequence[RowGroup]) -> None:
        """The runner must have run the groups once, so that their slots exist."""
        self._runner: Any = runner
        self._token_ids = torch.tensor([each for group in groups for each in group.token_ids])
        positions = torch.tensor([each for group in groups for each in group.positions])
        self._turns = self._runner._rope.rows(positions, max_position=int(positions.max()))
        self._sessions: list[_BareSession] = []
        start = 0
        for group in groups:
            self._sessions.append(_BareSession(runner, group, start))
            start += len(group.token_ids)

    @torch.inference_mode()
    def __call__(self) -> Tensor:
        runner = self._runner
        rows = functional.embedding(self._token_ids, runner._embeddings)
        for index, layer in enumerate(runner._layers):
            heads = layer.query_key_value(layer.attention_norm(rows))
            heads = heads.view(len(rows), -1, layer.head_dim).transpose(0, 1)
            num_turned = layer.num_heads + layer.num_kv_heads
            turned = rotate(heads[:num_turned], *self._turns)
            query, keys = turned[: layer.num_heads], turned[layer.num_heads :]
            mixed = [
                session.attend(index, query, keys, heads[num_turned:]) for session in self._sessions
            ]
            joined = mixed[0] if len(mixed) == 1 else torch.cat(mixed, dim=1)
            rows = rows + layer.attention_output(joined.transpose(0, 1).reshape(len(rows), -1))
            rows = rows + layer.mlp(layer.mlp_norm(rows))
        logits: Tensor = runner._head(runner._norm(rows))
        return logits.float()


class _BareSession:
    def __init__(self, runner: Any, group: RowGroup, start: int) -> None:
        end = start + len(group.token_ids)
        self._rows = slice(start, end)
        kv = runner.kv_store.open(KvId(group.kv_id), group.num_slots)
        layers = [kv._layers[index] for index in range(len(runner._layers))]
        self._keys = [layer.keys[None, :, : group.num_slots] for layer in layers]
        self._values = [layer.values[None, :, : group.num_slots] for layer in layers]
        self._new = slice(group.past_len, group.past_len + end - start)
        first = runner._layers[0]
        seen = torch.from_numpy(tree_mask(group.visible, group.past_len, group.num_slots))
        mask = torch.zeros(seen.shape, dtype=self._keys[0].dtype).masked_fill(~seen, -torch.inf)
        self._mask = mask.repeat(first.num_heads // first.num_kv_heads, 1)

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        stored_keys, stored_values = self._keys[layer], self._values[layer]
        stored_keys[0, :, self._new] = keys[:, self._rows]
        stored_values[0, :, self._new] = values[:, self._rows]
        some = query[:, self._rows]
        folded = some.reshape(1, keys.shape[0], -1, some.shape[2])
        mixed = functional.scaled_dot_product_attention(
            folded, stored_keys, stored_values, attn_mask=self._mask
        )
        return mixed.view(some.shape)
