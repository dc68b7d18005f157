"""What it costs to turn logits into the target's tokens."""

import torch
from torch import Tensor

from ssd.bench.figure import Figure
from ssd.bench.timing import seconds_in_turns
from ssd.core.sampling_params import SamplingParams
from ssd.sampling import DrawSpec, NoiseRows, target_token_ids

_NODES = 8
_VOCAB = 49_152
_LIMIT_MS = 1.5


def draw_of_a_tree() -> list[Figure]:
    """Noise, processors and argmax of 8 nodes; the noise rows were made while nothing else ran."""
    logits = torch.randn(_NODES, _VOCAB, generator=torch.Generator().manual_seed(0)) * 3
    requests = {
        "greedy": SamplingParams(temperature=0.0),
        "temperature": SamplingParams(temperature=0.8, seed=1),
        "top-k, top-p, min-p": SamplingParams(
            temperature=0.8, top_k=50, top_p=0.95, min_p=0.02, seed=1
        ),
    }
    return [
        Figure(f"draw of 8 nodes, {name}", _draw_seconds(logits, params) * 1e3, "ms", _LIMIT_MS)
        for name, params in requests.items()
    ]


def _draw_seconds(logits: Tensor, params: SamplingParams) -> float:
    noise = None if params.is_greedy else NoiseRows(1, _VOCAB)
    draws = [DrawSpec(params, 100 + node // 2, noise) for node in range(_NODES)]
    if noise is not None:
        noise.prefetch([draw.position for draw in draws])
    (seconds,) = seconds_in_turns([lambda: target_token_ids(logits, draws)], turns=60)
    return seconds
