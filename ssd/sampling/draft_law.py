"""The law q that proposals are drawn from, at a node of the draft's tree.

1. The draft's logits, processed like the target's and divided by the temperature.
2. The likeliest `law_len` ids are kept. (Sampling from less than q is exact, because the law that
   is sent and tested is the one that was sampled from.)
3. Saguaro (SSD paper, Definition 14): the likeliest `num_keys` weights are multiplied by
   `top_weight`. Proposals then leave the top to the residual, which makes the token after a
   rejection easier to predict, and are accepted less often. 1 is off.
4. Rounded to fp32, weight / sum of weights: this is q, on both sides.

Proposals are drawn without replacement; each has the conditional law of its draw. The keys, tokens
that the text may go on with though nobody proposes them, are the likeliest of the others: a
rejected proposal cannot be the token that follows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ssd.core.expansion import SampledCandidates
from ssd.core.sparse_law import SparseLaw
from ssd.sampling.coins import Coins, Weights


@dataclass(frozen=True)
class DraftLaw:
    """Ids, likeliest first, and their weights; all other ids have probability 0."""

    token_ids: NDArray[np.int64]
    weights: Weights

    @classmethod
    def of_sparse(cls, law: SparseLaw) -> "DraftLaw":
        return cls(
            np.frombuffer(law.token_ids, dtype="<u4").astype(np.int64),
            np.frombuffer(law.weights, dtype="<f4").astype(np.float64),
        )

    @classmethod
    def point(cls, token_id: int) -> "DraftLaw":
        """Of a token that was not drawn from any law."""
        return cls(np.array([token_id]), np.ones(1))

    @cached_property
    def probabilities(self) -> Weights:
        shares: Weights = self.weights / self.weights.sum()
        return shares

    def without(self, token_id: int) -> "DraftLaw":
        """The law of the next draw, after this token was drawn."""
        kept = self.token_ids != token_id
        return DraftLaw(self.token_ids[kept], self.weights[kept])


@dataclass(frozen=True, slots=True)
class Proposal:
    """A drafted token and the law that it was drawn from."""

    token_id: int
    law: DraftLaw

    @property
    def probability(self) -> float:
        """Of having drawn this token."""
        return float(self.law.probabilities[self.law.token_ids == self.token_id].sum())


def draw_proposals(law: DraftLaw, num_proposals: int, coins: Coins) -> list[Proposal]:
    """Draw without replacement, as long as the law has ids left."""
    proposals: list[Proposal] = []
    while len(proposals) < num_proposals and len(law.token_ids):
        token_id = int(law.token_ids[coins.choose(law.weights)])
        proposals.append(Proposal(token_id, law))
        law = law.without(token_id)
    return proposals


@dataclass(frozen=True, slots=True)
class DraftPolicy:
    """How a drafter samples: `num_proposals` siblings per node, the rest of its candidates keys."""

    num_proposals: int = 1
    law_len: int = 64
    top_weight: float = 1.0

    def __post_init__(self) -> None:
        if self.num_proposals < 1 or self.law_len < 1:
            raise ValueError(f"a law needs an id and a proposal: {self}")
        if not 0.0 < self.top_weight <= 1.0:
            raise ValueError(f"top_weight must be above 0 and at most 1, not {self.top_weight}")


def biased(weights: Weights, *, num_keys: int, top_weight: float) -> Weights:
    """Saguaro's law from weights in descending order."""
    changed = weights.copy()
    changed[:num_keys] *= top_weight
    return changed


def sample_candidates(
    scores: Tensor, policy: DraftPolicy, coins: Sequence[Coins], *, num_candidates: int
) -> list[SampledCandidates]:
    """Draw each node's proposals and list its keys; scores are `[rows, vocab]`, impossible ids
    -inf.

    A row with NaN or +inf has no candidates, because a draft may be useless but must not fail.
    """
    count = min(max(policy.law_len, num_candidates), scores.shape[1])
    top = scores.topk(count, dim=-1)
    values, ids = top.values.double().cpu().numpy(), top.indices.cpu().numpy()
    return [
        _sampled(row_values, row_ids, policy, row_coins, num_candidates)
        for row_values, row_ids, row_coins in zip(values, ids, coins, strict=True)
    ]


def _sampled(
    values: Weights,
    token_ids: NDArray[np.int64],
    policy: DraftPolicy,
    coins: Coins,
    num_candidates: int,
) -> SampledCandidates:
    """One row's candidates from its largest scores and their ids, in descending order."""
    if not math.isfinite(values[0]):
        return SampledCandidates((), 0, None)
    num_keys = max(num_candidates - policy.num_proposals, 0)
    weights = np.exp(values[: policy.law_len] - values[0])
    weights = biased(weights, num_keys=num_keys, top_weight=policy.top_weight)
    rounded = weights.astype("<f4")
    num_ids = int(np.count_nonzero(rounded))
    sparse = SparseLaw(token_ids[:num_ids].astype("<u4").tobytes(), rounded[:num_ids].tobytes())
    drawn = draw_proposals(DraftLaw.of_sparse(sparse), policy.num_proposals, coins)
    proposals = tuple(each.token_id for each in drawn)
    possible = token_ids[: num_keys + len(drawn)][values[: num_keys + len(drawn)] > -math.inf]
    keys = [each for each in possible.tolist() if each not in proposals]
    return SampledCandidates((*proposals, *keys[:num_keys]), len(drawn), sparse)
