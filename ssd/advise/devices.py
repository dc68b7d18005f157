"""What devices can do, by the data sheets of who makes them, and what of it a forward gets.

Two numbers turn a data sheet into a forward: the share of the memory's speed that reading weights
reaches, and the time that a layer takes whatever it computes (launches, and between devices the
exchange). On a GPU both come from the plain decoding of two published pairs, four models on H100s
(arXiv 2603.03251): with 0.9 and 85 us all four forwards come out within 10 %.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_GPU_READ_SHARE = 0.9
_GPU_LAYER_S = 85e-6
_ARITHMETIC_SHARE = 0.5  # of the peak, on products of few rows


@dataclass(frozen=True, slots=True)
class Device:
    """Bytes per second, bytes, and operations per second (16-bit, dense)."""

    name: str
    bandwidth: float
    memory: float
    arithmetic: float
    layer_s: float = _GPU_LAYER_S
    read_share: float = _GPU_READ_SHARE
    arithmetic_share: float = _ARITHMETIC_SHARE
    is_shared: bool = False
    """Whether messages and everything else run on it too."""

    def forward_s(
        self, *, num_bytes: float, operations: float, num_layers: int, spread: int = 1
    ) -> float:
        """Seconds of a forward that reads `num_bytes`, spread over so many of these devices."""
        reading = num_bytes / (self.bandwidth * self.read_share * spread)
        computing = operations / (self.arithmetic * self.arithmetic_share * spread)
        return max(reading, computing) + num_layers * self.layer_s


def _gpu(name: str, *, gb_per_s: float, gb: float, tflops: float) -> Device:
    return Device(name, gb_per_s * 1e9, gb * 1e9, tflops * 1e12)


DEVICES: Mapping[str, Device] = {
    device.name: device
    for device in (
        _gpu("b200", gb_per_s=8000, gb=180, tflops=2250),
        _gpu("h200", gb_per_s=4800, gb=141, tflops=989),
        _gpu("h100", gb_per_s=3350, gb=80, tflops=989),
        _gpu("a100", gb_per_s=2039, gb=80, tflops=312),
        _gpu("mi300x", gb_per_s=5300, gb=192, tflops=1307),
        _gpu("l40s", gb_per_s=864, gb=48, tflops=362),
        _gpu("l4", gb_per_s=300, gb=24, tflops=121),
        _gpu("rtx4090", gb_per_s=1008, gb=24, tflops=165),
        # One core, measured with `ssd bench engine`: it reads weights at 17 GiB/s and computes at
        # 97 GFLOP/s on 8 rows; a layer of a small model takes 0.1 ms beside its products.
        Device(
            "cpu-core",
            bandwidth=18e9,
            memory=8e9,
            arithmetic=97e9,
            layer_s=1e-4,
            read_share=1.0,
            arithmetic_share=1.0,
            is_shared=True,
        ),
    )
}
