"""How often a draft is expected to guess right, before anything was measured.

These are assumptions, said as such wherever they are used: of published runs (arXiv 2211.17192,
2302.01318, 2603.03251) and of the embedded pairs, rounded to what their spread deserves. What a
pair does on one's own text is a measurement: `ssd measure`.
"""

from collections.abc import Mapping
from enum import StrEnum


class Workload(StrEnum):
    """What most requests ask for."""

    EDIT = "edit"
    CODE = "code"
    SUMMARY = "summary"
    CHAT = "chat"
    CREATIVE = "creative"
    BULK = "bulk"


ACCEPTANCE: Mapping[Workload, float] = {
    Workload.EDIT: 0.85,
    Workload.CODE: 0.80,
    Workload.SUMMARY: 0.75,
    Workload.CHAT: 0.70,
    Workload.CREATIVE: 0.55,
    Workload.BULK: 0.70,
}
"""Of a draft of the same family, greedy."""

_PER_TEMPERATURE = 0.08
_OTHER_FAMILY = 0.10
_LEAST = 0.05


def expected_acceptance(workload: Workload, *, temperature: float, is_same_family: bool) -> float:
    """The rate at which the draft's first candidate is expected to be the target's token."""
    rate = ACCEPTANCE[workload] - _PER_TEMPERATURE * temperature
    return max(rate - (0.0 if is_same_family else _OTHER_FAMILY), _LEAST)


def expected_tokens(acceptance: float, depth: int) -> float:
    """Tokens of a round whose chain is `depth` long, bonus token included: (1 - a^(K+1)) / (1 - a).

    Source: Leviathan et al. 2023, equation 1.
    """
    return float(sum(acceptance**length for length in range(depth + 1)))
