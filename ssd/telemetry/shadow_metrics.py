"""What a verifier counts of drafts that nobody verifies: mode `shadow`."""

from prometheus_client import CollectorRegistry, Counter

from ssd.core.rounds import Lookup, ShadowRound

_LOOKUPS = (Lookup.HIT, Lookup.MISS_ABSENT, Lookup.MISS_KEY, Lookup.MISS_LATE)


class ShadowMetrics:
    """The counters of `VerifierMetrics` once more, for what would have been."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(f"ssd_shadow_{name}_total", words, labels, registry=registry)

        self._rounds = counter("rounds", "Rounds that drafts would have made.")
        self._tokens = counter("tokens", "Tokens of those rounds, bonus included.")
        self._drafted = counter("draft_tokens", "Drafted tokens that would have been verified.")
        self._tested = counter("tested_tokens", "Nodes walked that would have had a child.")
        self._accepted = counter("accepted_tokens", "Drafts that would have been accepted.")
        lookups = counter("cache_lookups", "What the cursor would have found.", "result")
        self._lookups = {each: lookups.labels(each.value) for each in _LOOKUPS}

    def count(self, shadow: ShadowRound) -> None:
        self._rounds.inc()
        self._tokens.inc(shadow.num_tokens)
        self._drafted.inc(shadow.num_proposed)
        self._tested.inc(shadow.num_tested)
        self._accepted.inc(shadow.num_accepted)
        if shadow.lookup is not Lookup.LAST:
            self._lookups[shadow.lookup].inc()
