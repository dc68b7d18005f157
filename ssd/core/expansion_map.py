"""The map of expansions that a verifier keeps for each session."""

from collections.abc import Iterator, Mapping

from ssd.core.expansion import Expansion
from ssd.core.ids import PrefixKey
from ssd.core.joined_expansion import joined

MAX_EXPANSIONS = 1024


class ExpansionMap:
    """The expansions of one session by prefix key, bounded, oldest out first.

    With `keep_first` an expansion that stands is never changed, as rule `ratio` demands: a second
    draw must not replace or join the first.
    """

    def __init__(self, capacity: int = MAX_EXPANSIONS, *, keep_first: bool = False) -> None:
        self._capacity = capacity
        self._keep_first = keep_first
        self._by_key: dict[PrefixKey, Expansion] = {}
        self._keys_at: dict[int, set[PrefixKey]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Expansion]:
        """Oldest first."""
        return iter(self._by_key.values())

    def get(self, key: PrefixKey) -> Expansion | None:
        return self._by_key.get(key)

    def snapshot(self) -> Mapping[PrefixKey, Expansion]:
        """What it holds now, whatever comes later."""
        return dict(self._by_key)

    def merge(self, expansion: Expansion) -> None:
        """Add an expansion; of one that stands already, only new candidates are taken."""
        known = self._by_key.get(expansion.key)
        if known is not None:
            if not self._keep_first:
                self._by_key[expansion.key] = joined(known, expansion)
            return
        if len(self._by_key) >= self._capacity:
            self._forget(next(iter(self._by_key)))
        self._by_key[expansion.key] = expansion
        self._keys_at.setdefault(expansion.position, set()).add(expansion.key)

    def forget_below(self, position: int) -> None:
        """Drop what proposes tokens before `position`: that text is committed."""
        for passed in [each for each in self._keys_at if each < position]:
            for key in self._keys_at.pop(passed):
                del self._by_key[key]

    def check(self) -> None:
        assert len(self._by_key) <= self._capacity
        assert sum(len(keys) for keys in self._keys_at.values()) == len(self._by_key)

    def _forget(self, key: PrefixKey) -> None:
        position = self._by_key.pop(key).position
        self._keys_at[position].discard(key)
        if not self._keys_at[position]:
            del self._keys_at[position]
