"""The model that clients see: the target of the verifiers that are attached."""

from dataclasses import dataclass

from coordinator.text_codec import TextCodec
from ssd.wire.hello import Capabilities

_EXACTNESS = {
    "fp64": "equal to plain decoding with the same seed",
    "fp32": "equal to plain decoding with the same seed, up to near-ties of 1e-4",
    "bf16": "the target's law; equal to plain decoding up to rounding",
    "fp16": "the target's law; equal to plain decoding up to rounding",
}


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What one fingerprint means to a client."""

    target: Capabilities
    codec: TextCodec

    @property
    def exactness(self) -> str:
        """Which guarantee the text carries (README: what "exact" means here)."""
        return _EXACTNESS.get(self.target.dtype, "the target's law")
