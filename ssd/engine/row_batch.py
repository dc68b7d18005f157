"""Row groups prepared for one forward: packed for the linear layers, apart for attention.

rows     | session a: a0 a1 a2 | session b: b0 | session c: c0 c1 |   one packed forward
attention  over a's slots        over b's        over c's             one call per session
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ssd.core.rows import RowGroup
from ssd.engine.attention import AttentionRule, PositionBias, attend
from ssd.engine.kv_store import KvStore, SessionKv
from ssd.engine.tree_mask import tree_mask, within_window


class RowBatch:
    """All rows of one forward. Lives for that forward only."""

    def __init__(self, groups: Sequence[RowGroup], kv_store: KvStore, device: torch.device) -> None:
        self.token_ids = _packed([group.token_ids for group in groups], device)  # [rows]
        self.positions = _packed([group.positions for group in groups], device)  # [rows]
        self.wanted = _wanted_rows(groups, device)  # [wanted]
        self.max_position = max(max(group.positions) for group in groups)
        self._sessions: list[_SessionRows] = []
        start = 0
        for group in groups:
            kv = kv_store.open(group.kv_id, max(group.num_slots, max(group.slots) + 1))
            kv.move(group.moves)
            kv.place(group.slots, group.positions)
            self._sessions.append(_SessionRows(group, start, kv, device))
            start += len(group.token_ids)

    def attend(
        self, layer: int, query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule
    ) -> Tensor:
        """Store the keys and values, attend per session: [heads, rows, dim] gives the same shape.

        Layers must come in ascending order, each once.
        """
        mixed = [session.attend(layer, query, keys, values, rule) for session in self._sessions]
        return mixed[0] if len(mixed) == 1 else torch.cat(mixed, dim=1)


class _SessionRows:
    """One session's part of a batch, with the masks its layers share."""

    def __init__(self, group: RowGroup, start: int, kv: SessionKv, device: torch.device) -> None:
        self._group = group
        self._rows = slice(start, start + len(group.token_ids))
        self._kv = kv
        self._slots = torch.tensor(group.slots, device=device)
        self._masks: dict[tuple[int | None, PositionBias | None, int], Tensor] = {}

    def attend(
        self, layer: int, query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule
    ) -> Tensor:
        stored = self._kv.write(layer, self._slots, keys[:, self._rows], values[:, self._rows])
        num_slots = self._group.num_slots
        return attend(
            query[:, self._rows],
            stored.keys[:, :num_slots],
            stored.values[:, :num_slots],
            mask=self._mask(rule, query.shape[0] // keys.shape[0], query.dtype),
            rule=rule,
        )

    def _mask(self, rule: AttentionRule, num_folds: int, dtype: torch.dtype) -> Tensor:
        key = rule.window, rule.position_bias, num_folds
        mask = self._masks.get(key)
        if mask is None:
            mask = self._make_mask(rule.window, num_folds, dtype)
            if rule.position_bias is not None:
                mask = self._biased(mask, rule.position_bias, num_folds)
            self._masks[key] = mask
        return mask

    def _biased(self, mask: Tensor, bias: PositionBias, num_folds: int) -> Tensor:
        """[kv_heads, folded rows, slots]: the mask with what each head adds by position."""
        positions = torch.from_numpy(self._kv.positions[: self._group.num_slots]).to(mask.device)
        per_head = bias(positions).to(mask.dtype)  # [heads, slots]
        per_row = per_head[:, None].expand(-1, len(mask) // num_folds, -1)
        return mask + per_row.reshape(-1, *mask.shape)

    def _make_mask(self, window: int | None, num_folds: int, dtype: torch.dtype) -> Tensor:
        seen = tree_mask(self._group.visible, self._group.past_len, self._group.num_slots)
        if window is not None:
            seen = within_window(
                seen,
                row_positions=self._group.positions,
                slot_positions=self._kv.positions[: self._group.num_slots],
                window=window,
            )
        unseen = torch.from_numpy(~seen).to(self._slots.device)
        additive = torch.zeros(unseen.shape, dtype=dtype, device=unseen.device)
        additive.masked_fill_(unseen, float("-inf"))
        return additive if num_folds == 1 else additive.repeat(num_folds, 1)


def _packed(columns: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    return torch.tensor([value for column in columns for value in column], device=device)


def _wanted_rows(groups: Sequence[RowGroup], device: torch.device) -> Tensor:
    rows: list[int] = []
    start = 0
    for group in groups:
        rows.extend(start + row for row in group.wanted)
        start += len(group.token_ids)
    return torch.tensor(rows, dtype=torch.long, device=device)
