"""Rotary embeddings of every position, computed once by the model's own module."""

from typing import Any

import torch
from torch import Tensor

_FIRST_LEN = 1024


class RopeTable:
    """Cosines and signed sines, [positions, head_dim]; doubles as texts get longer."""

    def __init__(self, rotary_module: Any, *, dtype: torch.dtype, device: torch.device) -> None:
        self._rotary_module = rotary_module  # knows theta and the scaling of long contexts
        self._like = torch.empty(1, dtype=dtype, device=device)
        self._compute(_FIRST_LEN)

    def rows(self, positions: Tensor, *, max_position: int) -> tuple[Tensor, Tensor]:
        """What `rotate` needs for rows at these positions, each [rows, head_dim]."""
        num_positions = self._cosines.shape[0]
        if max_position >= num_positions:
            self._compute(max(2 * num_positions, max_position + 1))
        return self._cosines[positions], self._signed_sines[positions]

    def _compute(self, num_positions: int) -> None:
        positions = torch.arange(num_positions, device=self._like.device)[None]
        cosines, sines = self._rotary_module(self._like, position_ids=positions)
        half = sines.shape[-1] // 2
        self._cosines: Tensor = cosines[0]
        self._signed_sines = torch.cat([-sines[0, :, :half], sines[0, :, half:]], dim=-1)


def rotate(heads: Tensor, cosines: Tensor, signed_sines: Tensor) -> Tensor:
    """Turn [heads, rows, head_dim]: halves swap, and the first comes with its sine negated."""
    swapped = heads.roll(heads.shape[-1] // 2, dims=-1)
    return torch.addcmul(heads * cosines, swapped, signed_sines)
