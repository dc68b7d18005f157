"""How tokens are drawn: shared noise, logits processors and the coupled rule, as functions."""

from ssd.sampling.coupled import (
    DrawSpec,
    RankedCandidates,
    perturbed_scores,
    rank_candidates,
    target_token_ids,
)
from ssd.sampling.logprobs import token_logprobs
from ssd.sampling.noise import NOISE_VERSION, NoiseRows, gumbel_rows
from ssd.sampling.philox import Purpose, derive_seed, philox4x32, random_words, uniforms
from ssd.sampling.processors import divide_by_temperature, process_logits
from ssd.sampling.text_edits import PathEdits, TextEdits, edit_logits

__all__ = [
    "NOISE_VERSION",
    "DrawSpec",
    "NoiseRows",
    "PathEdits",
    "Purpose",
    "RankedCandidates",
    "TextEdits",
    "derive_seed",
    "divide_by_temperature",
    "edit_logits",
    "gumbel_rows",
    "perturbed_scores",
    "philox4x32",
    "process_logits",
    "random_words",
    "rank_candidates",
    "target_token_ids",
    "token_logprobs",
    "uniforms",
]
