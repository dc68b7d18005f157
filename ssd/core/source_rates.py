"""How often candidates come true, by who named them.

A drafter alone has one set of counts (`ssd.core.edge_rates`). Where several speak of one place, a
candidate that two of them named is another case than one that the second did not name; each case
has counts of its own: which drafters named it, out of which that spoke.
"""

from collections import defaultdict
from collections.abc import Sequence

from ssd.core.drafter_kind import DrafterKind
from ssd.core.edge_rates import EdgeRates
from ssd.core.expansion import Expansion


class SourceRates:
    """Counts of the candidates of all drafters; `weights` are the estimates they correct."""

    def __init__(self) -> None:
        self._alone: defaultdict[DrafterKind, EdgeRates] = defaultdict(EdgeRates)
        self._together: defaultdict[tuple[int, int], EdgeRates] = defaultdict(EdgeRates)

    def of(self, kind: DrafterKind) -> EdgeRates:
        """Everything that one kind of drafter said, whatever others said of the same places."""
        return self._alone[kind]

    def weights(self, expansion: Expansion) -> list[float]:
        """Probability that the target takes each candidate, given that it stands at the prefix."""
        if not expansion.parts:
            rates = self.of(expansion.source)
            return [rates.weight(rank, each) for rank, each in enumerate(expansion.estimates)]
        return [
            self._of_case(origins, expansion).weight(rank, estimate)
            for rank, (origins, estimate) in enumerate(
                zip(expansion.origins, expansion.estimates, strict=True)
            )
        ]

    def record(self, expansion: Expansion, token_id: int) -> None:
        """The target took this token after the prefix."""
        for part in expansion.parts or (expansion,):
            rates = self.of(part.source)
            for rank, candidate in enumerate(part.token_ids):
                rates.record(rank, part.estimates[rank], is_match=candidate == token_id)
        if expansion.parts:
            self._record_cases(expansion.origins, expansion, token_id)

    def _record_cases(self, origins: Sequence[int], expansion: Expansion, token_id: int) -> None:
        for rank, candidate in enumerate(expansion.token_ids):
            rates = self._of_case(origins[rank], expansion)
            rates.record(rank, expansion.estimates[rank], is_match=candidate == token_id)

    def _of_case(self, origins: int, expansion: Expansion) -> EdgeRates:
        return self._together[origins, expansion.source_bits]
