"""How far ahead a drafter grows under rule `ratio`: by structure and past averages alone.

Whether a proposal is there when it could be tested must not depend on what was drawn, so neither
may its edge weight. Each weight starts from the candidate's place, and the verifier's counts of
that place correct it (`ssd.core.edge_rates`). Growth is best first by reach, as everywhere. With

    pi_k = a^k (1 - a)          the chance that a walk ends after k accepted proposals,
    h(j) ~ j^-(1 + r)           that the token after it is the j-th key,

that takes a key while pi_k h(j) is above one level for all k, so it takes F_k ~ pi_k^(1 / (1 + r))
keys at depth k: the geometric fan-out of the SSD paper (Theorem 12), with counted numbers in the
place of a and r.
"""

from collections.abc import Sequence
from enum import StrEnum

from ssd.core.edge_rates import EdgeRates


class GrowthOrder(StrEnum):
    """Which nodes are grown first: those likeliest to be passed (`reach`), or, as the SSD paper has
    it, by structure alone: fewer guesses of a bonus token the deeper it stands (`geometric`), or as
    many at every depth of the chain (`uniform`)."""

    REACH = "reach"
    GEOMETRIC = "geometric"
    UNIFORM = "uniform"


_ACCEPTED = 0.6  # of first proposals, until counts say otherwise
_DECAY = 2.0  # 1 + r
_TOTAL = 1.645  # of j^-2 over all j
_CERTAIN = 1.0 - 1e-6
UNCOUNTED = EdgeRates()
"""Takes estimates as they are; nobody counts with it."""


def order_estimates(
    order: GrowthOrder, estimates: Sequence[float], rates: EdgeRates
) -> tuple[Sequence[float], EdgeRates]:
    """By what a growing tree ranks the candidates of a node, and the counts that correct it."""
    if order is GrowthOrder.REACH:
        return estimates, rates
    first = rates.first_rate if order is GrowthOrder.GEOMETRIC else _CERTAIN
    rest = 1.0 - rates.first_rate
    keys = [rest / _TOTAL * place**-_DECAY for place in range(1, len(estimates))]
    return [first, *keys][: len(estimates)], UNCOUNTED


def structural_estimates(num_proposals: int, num_candidates: int) -> tuple[float, ...]:
    """Estimates of proposals, each tested when those before it failed, and then of the keys."""
    failed = 1.0 - _ACCEPTED
    proposals = [_ACCEPTED * failed**index for index in range(num_proposals)]
    rest = failed**num_proposals / _TOTAL
    keys = [rest * place**-_DECAY for place in range(1, num_candidates - num_proposals + 1)]
    return (*proposals, *keys)
