"""What a client may say about how tokens are drawn."""

import math
from dataclasses import dataclass

from ssd.core.errors import InvalidRequest

MAX_SEED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Turns logits into a law. The same values rule the target's draw and the drafter's guess.

    Temperature 0 means argmax. `top_k` 0 and `top_p` 1 switch those cuts off; a `top_k` above the
    vocabulary is clamped. `min_p` drops tokens less likely than `min_p` times the likeliest.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        _require(0.0 <= self.temperature <= 2.0, "temperature", "between 0 and 2", self.temperature)
        _require(self.top_k >= 0, "top_k", "0 (off) or more", self.top_k)
        _require(0.0 < self.top_p <= 1.0, "top_p", "above 0 and at most 1", self.top_p)
        _require(0.0 <= self.min_p < 1.0, "min_p", "at least 0 and below 1", self.min_p)
        _require(0 <= self.seed <= MAX_SEED, "seed", "an unsigned 64-bit integer", self.seed)

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0


def _require(holds: bool, name: str, limit: str, value: float) -> None:
    if not holds or math.isnan(value):
        raise InvalidRequest(f"{name} must be {limit}, not {value}")
