"""What one model of the pair takes on its devices, and how long its forwards last."""

from dataclasses import dataclass

from ssd.advise.devices import Device
from ssd.advise.model_shape import ModelShape

BYTES: dict[str, int] = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2}
_USABLE = 0.9  # of a device's memory; the rest is workspace and what the library keeps


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on all devices of the model together."""

    weights: float
    kv_per_token: float
    kv: float
    trees: float

    @property
    def total(self) -> float:
        return self.weights + self.kv + self.trees


@dataclass(frozen=True, slots=True)
class PlacedModel:
    """A model for `batch` texts of `context` tokens, with room for a tree of each.

    `tree_slots` are the KV slots of one text's tree.
    """

    shape: ModelShape
    device: Device
    dtype: str
    batch: int
    context: int
    tree_slots: int

    @property
    def memory(self) -> Memory:
        per_token = self.shape.kv_values * BYTES[self.dtype]
        return Memory(
            weights=self.shape.num_parameters * BYTES[self.dtype],
            kv_per_token=per_token,
            kv=per_token * self.context * self.batch,
            trees=per_token * self.tree_slots * self.batch,
        )

    @property
    def num_devices(self) -> int:
        """The fewest devices that hold it, a power of two: heads are spread evenly."""
        count = 1
        while self.memory.total > count * self.device.memory * _USABLE:
            count *= 2
        return count

    def forward_s(self, *, num_rows: float, num_texts: float) -> float:
        """A forward of so many rows over the KV of so many texts."""
        num_bytes = self.shape.num_read(num_rows) * BYTES[self.dtype]
        num_bytes += self.memory.kv_per_token * self.context * num_texts
        return self.device.forward_s(
            num_bytes=num_bytes,
            operations=2.0 * self.shape.num_active * num_rows,
            num_layers=self.shape.num_layers,
            spread=self.num_devices,
        )
