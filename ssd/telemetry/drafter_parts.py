"""Each drafter's part in the rounds, as figures and as a span's attributes."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter

from ssd.core.drafter_kind import DrafterKind, DrafterState
from ssd.core.rounds import DrafterPart


class DrafterPartCounters:
    """What each kind of drafter brought, and what sessions made of it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        tokens = Counter(
            "ssd_named_tokens_total",
            "Drafted tokens that were verified, by who named them and what became of them.",
            ["drafter", "outcome"],
            registry=registry,
        )
        rounds = Counter(
            "ssd_drafter_rounds_total",
            "Rounds of sessions, by what the session made of the drafter.",
            ["drafter", "state"],
            registry=registry,
        )
        self._accepted = {kind: tokens.labels(kind.value, "accepted") for kind in DrafterKind}
        self._wasted = {kind: tokens.labels(kind.value, "wasted") for kind in DrafterKind}
        self._rounds = {
            (kind, state): rounds.labels(kind.value, state.value)
            for kind in DrafterKind
            for state in DrafterState
        }

    def count(self, parts: Sequence[DrafterPart]) -> None:
        """One session's round."""
        for part in parts:
            self._rounds[part.kind, part.state].inc()
            if part.num_proposed:
                self._accepted[part.kind].inc(part.num_accepted)
                self._wasted[part.kind].inc(part.num_proposed - part.num_accepted)


def part_attributes(parts: Sequence[DrafterPart]) -> dict[str, str | int]:
    """A round's drafters, for its span."""
    attributes: dict[str, str | int] = {}
    for part in parts:
        name = f"ssd.drafter.{part.kind.value}"
        attributes[f"{name}.state"] = part.state.value
        attributes[f"{name}.nodes"] = part.num_proposed
        attributes[f"{name}.accepted"] = part.num_accepted
    return attributes
