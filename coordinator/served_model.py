"""The model that clients see: the target of the verifiers that are attached."""

from dataclasses import dataclass

from coordinator.text_codec import TextCodec
from ssd.core.sampling_params import SamplingParams
from ssd.wire.hello import Capabilities

_EXACTNESS = {
    "fp64": "equal to plain decoding with the same seed",
    "fp32": "equal to plain decoding with the same seed, up to near-ties of 1e-4",
    "bf16": "the target's law; equal to plain decoding up to rounding",
    "fp16": "the target's law; equal to plain decoding up to rounding",
}


_BY_RATIO = "the target's law; a seed does not fix the text under rule ratio"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What one fingerprint means to a client."""

    target: Capabilities
    codec: TextCodec

    @property
    def exactness(self) -> str:
        """Which guarantee the text carries (README: what "exact" means here)."""
        return _EXACTNESS.get(self.target.dtype, "the target's law")

    def exactness_of(self, params: SamplingParams) -> str:
        """Which guarantee one request's text carries."""
        return self.exactness if params.is_coupled else _BY_RATIO
