"""Which tokens followed which runs of tokens: the n-gram forms `map-k` and `map-k4v`.

A table holds no text and no place in one, so several texts may fill one together.
"""

from collections.abc import Sequence

from ssd.core.ngram_limits import NgramForm, NgramLimits, estimate_of

_NUM_COUNTED = 4
_BYTES_PER_RUN = 280  # measured, with what follows it (tests/core/test_ngram.py)
_LATER = 0.5  # a token that followed longer ago is so much less likely than the one after it


class NgramTable:
    """What followed each run, bounded: runs that were seen first go first.

    Each entry is (hits of the run, token, count, token, count, ...), best first: by time in
    `map-k`, by count in `map-k4v`, where a fifth token takes the place of the rarest.
    """

    def __init__(self, limits: NgramLimits) -> None:
        if limits.form is NgramForm.SIMPLE:
            raise ValueError("form simple has no table")
        self._limits = limits
        self._by_count = limits.form is NgramForm.MAP_K4V
        self._num_kept = _NUM_COUNTED if self._by_count else limits.num_candidates
        self._capacity = max(limits.table_bytes // _BYTES_PER_RUN, 1)
        self._entries: dict[int, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def learn(self, before: Sequence[int], token_id: int) -> None:
        """A token followed a text of which `before` is the end, `size_n` tokens or all."""
        for size in self._limits.sizes:
            if size <= len(before):
                self._learn(_key(before[len(before) - size :]), token_id)

    def look_up(self, before: Sequence[int]) -> list[tuple[int, float]]:
        """(token, estimate), best first, after the longest run of the text's end that counts."""
        for size in self._limits.sizes:
            if size <= len(before):
                entry = self._entries.get(_key(before[len(before) - size :]))
                if entry is not None and entry[0] >= self._limits.min_hits:
                    return self._candidates(entry, estimate_of(size))
        return []

    def _candidates(self, entry: tuple[int, ...], belief: float) -> list[tuple[int, float]]:
        tokens, counts = entry[1::2], entry[2::2]
        weights = counts if self._by_count else [_LATER**rank for rank in range(len(tokens))]
        total = sum(weights)
        pairs = zip(tokens, weights, strict=True)
        limit = self._limits.num_candidates
        return [(token_id, belief * weight / total) for token_id, weight in pairs][:limit]

    def _learn(self, key: int, token_id: int) -> None:
        known = self._entries.get(key)
        if known is None:
            if len(self._entries) >= self._capacity:
                del self._entries[next(iter(self._entries))]
            self._entries[key] = (1, token_id, 1)
            return
        pairs = dict(zip(known[1::2], known[2::2], strict=True))
        count = pairs.pop(token_id, 0) + 1
        if self._by_count:
            if len(pairs) >= self._num_kept:
                pairs.popitem()
            ranked = sorted([*pairs.items(), (token_id, count)], key=lambda pair: -pair[1])
        else:
            ranked = [(token_id, count), *pairs.items()][: self._num_kept]
        flat = [number for pair in ranked for number in pair]
        self._entries[key] = (known[0] + 1, *flat)


def _key(run: Sequence[int]) -> int:
    """Python's own hash of small integers in a tuple: the same in every process.

    Two runs may share it, which makes a draft useless and nothing wrong.
    """
    return hash(tuple(run))
