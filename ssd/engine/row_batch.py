"""Row groups prepared for one forward: packed for the linear layers, apart for attention.

rows     | session a: a0 a1 a2 | session b: b0 | session c: c0 c1 |   one packed forward
attention  over a's slots        over b's        over c's             one call per session

What a session's rows attend to, by slot, of which those below `past_len` are the text's positions:

    0 ....... first ................ masked_from ......... num_slots
      before      seen by all rows,      some see it, some
      any window  no mask needed         do not: a mask
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ssd.core.rows import Meanwhile, RowGroup, nothing_meanwhile
from ssd.engine.attention import attend
from ssd.engine.attention_rule import AttentionRule, PositionBias
from ssd.engine.kv_store import KvStore, SessionKv, SlotIndex
from ssd.engine.tree_mask import Mask, tree_mask, within_window

_LONG_TEXT_LEN = 1024
"""Slots of text from which on it pays to leave it out of the mask."""

_ADDED = np.array([-np.inf, 0.0], dtype=np.float32)
"""To a score, where the row does not see the slot and where it does."""

_FEW_ROWS = 32
"""Of more rows the CPU's fused attention is faster than scores in memory."""


class RowBatch:
    """All rows of one forward. Lives for that forward only."""

    def __init__(
        self,
        groups: Sequence[RowGroup],
        kv_store: KvStore,
        device: torch.device,
        meanwhile: Meanwhile = nothing_meanwhile,
    ) -> None:
        self.max_position = max(max(group.positions) for group in groups)
        self._meanwhile = meanwhile
        self._is_own_host = device.type == "cpu"
        self._sessions: list[_SessionRows] = []
        wanted: list[int] = []
        start = 0
        for group in groups:
            kv = kv_store.open(
                group.kv_id, max(group.num_slots, max(group.slots) + 1), held=group.held
            )
            kv.move(group.moves)
            kv.place(group.slots, group.positions)
            self._sessions.append(_SessionRows(group, start, kv, device))
            wanted.extend(start + row for row in group.wanted)
            start += len(group.token_ids)
        self.num_rows = start
        # One tensor, so that a device gets one copy.
        packed = _flat([group.token_ids for group in groups])
        packed += _flat([group.positions for group in groups])
        columns = _on_device(torch.from_numpy(np.array(packed + wanted, dtype=np.int64)), device)
        self.token_ids = columns[:start]  # [rows]
        self.positions = columns[start : 2 * start]  # [rows]
        self.wanted = columns[2 * start :]  # [wanted]

    @property
    def wants_all(self) -> bool:
        return len(self.wanted) == self.num_rows

    def attend(
        self, layer: int, query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule
    ) -> Tensor:
        """Store the keys and values, attend per session: [heads, rows, dim] gives the same shape.

        Layers must come in ascending order, each once.
        """
        if layer == 0 and self._is_own_host:
            self._meanwhile()  # whoever it wakes works under the layer's large products
        if len(self._sessions) == 1:
            return self._sessions[0].attend(layer, query, keys, values, rule)
        mixed = [
            session.attend(
                layer, query[:, session.rows], keys[:, session.rows], values[:, session.rows], rule
            )
            for session in self._sessions
        ]
        return torch.cat(mixed, dim=1)

    def queued(self) -> None:
        """The host has said everything; a GPU is still at work."""
        if not self._is_own_host:
            self._meanwhile()


@dataclass(frozen=True, slots=True)
class _View:
    """Which slots a layer's attention reads, and the mask over the last of them."""

    slots: slice
    mask: Tensor | None


class _SessionRows:
    """One session's part of a batch, with the masks its layers share."""

    def __init__(self, group: RowGroup, start: int, kv: SessionKv, device: torch.device) -> None:
        self.rows = slice(start, start + len(group.token_ids))
        self._group = group
        self._kv = kv
        self._device = device
        self._slots = _slot_index(group.slots, device)
        self._views: dict[tuple[int | None, PositionBias | None, int], _View] = {}

    def attend(
        self, layer: int, query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule
    ) -> Tensor:
        """All arguments of this session's rows only."""
        stored = self._kv.write(layer, self._slots, keys, values)
        num_folds = query.shape[0] // keys.shape[0]
        key = rule.window, rule.position_bias, num_folds
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = self._view(rule, num_folds, query.dtype)
        return attend(
            query,
            stored.keys[:, view.slots],
            stored.values[:, view.slots],
            mask=view.mask,
            rule=rule,
        )

    def _view(self, rule: AttentionRule, num_folds: int, dtype: torch.dtype) -> _View:
        first = self._first_seen(rule.window)
        masked_from = self._masked_from(rule, first)
        slots = slice(first, self._group.num_slots)
        seen = self._seen(rule.window, masked_from)
        if seen.all() and rule.position_bias is None:
            return _View(slots, None)
        folded = np.empty((num_folds, *seen.shape), dtype=np.float32)
        folded[:] = _ADDED[seen.view(np.uint8)]
        additive = torch.from_numpy(folded.reshape(-1, seen.shape[1]))
        mask = _on_device(additive.to(dtype), self._device)
        if rule.position_bias is not None:
            mask = self._biased(mask, rule.position_bias, num_folds)
        return _View(slots, mask)

    def _first_seen(self, window: int | None) -> int:
        """No row sees a slot of the text before this one."""
        if window is None:
            return 0
        return max(min(min(self._group.positions) - window + 1, self._group.past_len), 0)

    def _masked_from(self, rule: AttentionRule, first: int) -> int:
        """The slot that the mask begins with: all of them, unless leaving out the text pays."""
        if rule.window is not None or rule.position_bias is not None:
            return first
        num_rows = len(self._group.token_ids)
        is_few = self._device.type != "cpu" or num_rows <= _FEW_ROWS
        past_len = self._group.past_len
        return past_len if is_few and past_len >= _LONG_TEXT_LEN else first

    def _seen(self, window: int | None, masked_from: int) -> Mask:
        """[rows, masked slots]: true where the row sees the slot."""
        group = self._group
        seen = tree_mask(group.visible, group.past_len - masked_from, group.num_slots - masked_from)
        if window is None:
            return seen
        return within_window(
            seen,
            row_positions=group.positions,
            slot_positions=self._kv.positions[masked_from : group.num_slots],
            window=window,
        )

    def _biased(self, mask: Tensor, bias: PositionBias, num_folds: int) -> Tensor:
        """[kv_heads, folded rows, slots]: the mask with what each head adds by position."""
        first = self._group.num_slots - mask.shape[1]
        positions = torch.from_numpy(self._kv.positions[first : self._group.num_slots])
        per_head = bias(positions.to(mask.device)).to(mask.dtype)  # [heads, slots]
        per_row = per_head[:, None].expand(-1, len(mask) // num_folds, -1)
        return mask + per_row.reshape(-1, *mask.shape)


def _slot_index(slots: Sequence[int], device: torch.device) -> SlotIndex:
    """Slots in a row are a slice, which is a plain copy to write to."""
    first, last = slots[0], slots[-1]
    if last - first == len(slots) - 1 and list(slots) == list(range(first, last + 1)):
        return slice(first, last + 1)
    return _on_device(torch.tensor(slots), device)


def _on_device(values: Tensor, device: torch.device) -> Tensor:
    """Pinned memory lets the copy to a GPU go on while the host prepares the rest."""
    if device.type == "cpu":
        return values
    return values.pin_memory().to(device, non_blocking=True)


def _flat(columns: Sequence[Sequence[int]]) -> list[int]:
    return [value for column in columns for value in column]
