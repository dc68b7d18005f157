"""Numbers of the target that a drafter may need, such as its hidden states of committed tokens."""

import math
from dataclasses import dataclass
from enum import StrEnum


class FeatureDtype(StrEnum):
    """Number formats that features travel in."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"

    @property
    def num_bytes(self) -> int:
        return 4 if self is FeatureDtype.FP32 else 2


@dataclass(frozen=True, slots=True)
class Features:
    """A tensor as it travels: rows end to end, little-endian; the first axis is that of tokens."""

    shape: tuple[int, ...]
    dtype: FeatureDtype
    data: bytes

    def __post_init__(self) -> None:
        expected = math.prod(self.shape) * self.dtype.num_bytes
        if len(self.data) != expected:
            shape = " x ".join(str(each) for each in self.shape)
            raise ValueError(
                f"features of {shape} {self.dtype} take {expected} bytes, not {len(self.data)}"
            )
