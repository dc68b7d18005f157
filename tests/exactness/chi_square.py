"""Does a sample follow a law? Chi-square at alpha 1e-6, rare cells pooled."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from scipy import stats

Cell = TypeVar("Cell", bound=Hashable)
ALPHA = 1e-6
_FEWEST_EXPECTED = 8.0


def p_value(sample: Iterable[Cell], law: Mapping[Cell, float]) -> float:
    """Probability of a sample at least this odd under the law; 0 if it holds the impossible."""
    counts = Counter(sample)
    total = sum(counts.values())
    if any(law.get(cell, 0.0) <= 0.0 for cell in counts):
        return 0.0
    common = [cell for cell in law if law[cell] * total >= _FEWEST_EXPECTED]
    seen, expected = [counts[cell] for cell in common], [law[cell] * total for cell in common]
    rare_seen, rare_expected = total - sum(seen), total - sum(expected)
    if rare_expected >= _FEWEST_EXPECTED:  # one cell for all that are rare
        seen.append(rare_seen)
        expected.append(rare_expected)
    else:
        seen[-1] += rare_seen
        expected[-1] += rare_expected
    return float(stats.chisquare(seen, expected, sum_check=False).pvalue)
