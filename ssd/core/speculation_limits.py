"""How much of a request's text may be speculated on at once."""

from dataclasses import dataclass

from ssd.core.drafter_kind import DrafterKind
from ssd.core.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class SpeculationLimits:
    """Bounds of one request's draft trees, below those of the server; None leaves it to those.

    `drafters` are the kinds that may work for it, of those that there are. No speculation at all is
    mode `ar`, not a bound of 0.
    """

    max_nodes: int | None = None
    max_depth: int | None = None
    drafters: frozenset[DrafterKind] | None = None

    def __post_init__(self) -> None:
        for name in ("max_nodes", "max_depth"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidRequest(
                    f"speculation.{name} must be at least 1, not {value}; mode ar drafts nothing",
                    f"speculation.{name}",
                )

    def allows(self, kind: DrafterKind) -> bool:
        """Whether a kind of drafter may work for the request."""
        return self.drafters is None or kind in self.drafters

    def nodes(self, limit: int) -> int:
        """The bound on a tree's nodes where the server's is `limit`."""
        return limit if self.max_nodes is None else min(limit, self.max_nodes)

    def depth(self, limit: int) -> int:
        """The bound on a tree's depth; a tree is no deeper than it has nodes."""
        return min(each for each in (limit, self.max_nodes, self.max_depth) if each is not None)
