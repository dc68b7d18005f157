"""Whether two engines said the same, by ids, in float32.

Engines add up products in different orders, so where the two best tokens lie within 1e-4 of each
other either may win. Such a near-tie is counted and not held against anybody; any other difference
is an error of somebody's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

NEAR_TIE = 1e-4


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a text leaves the reference, and the gap of the two tokens' logits."""

    contestant: str
    prompt: int
    index: int
    gap: float

    @property
    def is_near_tie(self) -> bool:
        return self.gap <= NEAR_TIE


class Judge:
    """Knows the target in float64; the pair without padding says the same for less."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._model: torch.nn.Module | None = None

    def first_difference(
        self,
        contestant: str,
        number: int,
        prompt_ids: Sequence[int],
        texts: tuple[Sequence[int], Sequence[int]],
    ) -> Difference | None:
        """Of the reference and another text of the same prompt; None where they are equal."""
        reference, other = texts
        if list(reference) == list(other):
            return None
        shared = min(len(reference), len(other))
        pairs = zip(reference[:shared], other[:shared], strict=True)
        index = next((i for i, (one, two) in enumerate(pairs) if one != two), None)
        if index is None:  # one of them is longer
            return Difference(contestant, number, shared, float("inf"))
        logits = self._logits([*prompt_ids, *reference[:index]])
        gap = abs(float(logits[reference[index]] - logits[other[index]]))
        return Difference(contestant, number, index, gap)

    @torch.inference_mode()
    def _logits(self, token_ids: Sequence[int]) -> torch.Tensor:
        """[vocab] after the last of the ids."""
        if self._model is None:
            self._model = AutoModelForCausalLM.from_pretrained(self._target, dtype=torch.float64)
        found: torch.Tensor = self._model(torch.tensor([list(token_ids)])).logits[0, -1]
        return found
