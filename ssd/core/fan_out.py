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

_ACCEPTED = 0.6  # of first proposals, until counts say otherwise
_DECAY = 2.0  # 1 + r
_TOTAL = 1.645  # of j^-2 over all j


def structural_estimates(num_proposals: int, num_candidates: int) -> tuple[float, ...]:
    """Estimates of proposals, each tested when those before it failed, and then of the keys."""
    failed = 1.0 - _ACCEPTED
    proposals = [_ACCEPTED * failed**index for index in range(num_proposals)]
    rest = failed**num_proposals / _TOTAL
    keys = [rest * place**-_DECAY for place in range(1, num_candidates - num_proposals + 1)]
    return (*proposals, *keys)
