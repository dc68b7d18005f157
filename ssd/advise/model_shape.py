"""What a model is in numbers: enough to say what its forwards cost and what memory it takes."""

from dataclasses import dataclass

from ssd.core.cost_model import Experts


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder-only model, counted from its configuration; nothing here is measured.

    `num_parameters` are all of them, tied ones once. Of those `num_looked_up` are tables of which a
    token reads one row, `num_expert` belong to experts (of one layer: `experts`, if it is a
    mixture). `kv_values` are the numbers that one token's keys and values take, over all layers.
    `context_len` is None where the configuration does not say.
    """

    family: str
    num_parameters: int
    num_looked_up: int
    num_layers: int
    kv_values: int
    vocab_size: int
    context_len: int | None
    dtype: str | None = None
    num_expert: int = 0
    experts: Experts | None = None

    def num_read(self, num_rows: float) -> float:
        """Parameters that a forward of so many rows reads: of a mixture, the experts touched."""
        always = self.num_parameters - self.num_looked_up - self.num_expert
        if self.experts is None:
            return float(always)
        return always + self.num_expert * self.experts.touched(num_rows) / self.experts.count

    @property
    def num_active(self) -> float:
        """Parameters that one token multiplies with."""
        return self.num_read(1)
