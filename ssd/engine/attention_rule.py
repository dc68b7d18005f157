"""What one layer asks of attention."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

PositionBias = Callable[[Tensor], Tensor]
"""What a score gains by where its key stands (ALiBi): [slots] positions give [heads, slots]."""


@dataclass(frozen=True, slots=True)
class AttentionRule:
    """What a model's layer asks of attention, besides queries, keys, values and the tree.

    `window` counts positions, the row's own included. `sinks`, one logit per head, take part in the
    softmax and carry no value. `position_bias` is added to the scaled scores.
    """

    scale: float | None = None
    window: int | None = None
    softcap: float | None = None
    sinks: Tensor | None = None  # [heads]
    position_bias: PositionBias | None = None

    @property
    def is_plain(self) -> bool:
        return self.softcap is None and self.sinks is None
