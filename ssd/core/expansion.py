"""Expansions: what a drafter sends, and the map a verifier keeps of them.

An expansion says: after the text named by `key`, these tokens are likely next. It speaks of a text,
not of a tree, a round or an earlier message; so whatever arrives can be useless but never wrong,
duplicates merge, and order does not matter. (The SSD paper's cache, arXiv 2603.03251 section 3, is
the same tree keyed by outcomes.)
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ssd.core.ids import PrefixKey
from ssd.core.sparse_law import SparseLaw

MAX_EXPANSIONS = 1024


@dataclass(frozen=True, slots=True)
class Expansion:
    """Likely next tokens after one prefix, best first.

    `position` is the index in the text of the token they propose, which is the prefix's length.
    `estimates[i]` is the drafter's own probability that the target takes `token_ids[i]` given that
    it stands at the prefix. `step` is the drafter's growth step that ran the prefix's last token.
    The first `num_proposals` candidates (None: all of them) may be verified, the others are keys:
    tokens that further expansions may follow. Under rule `ratio` the proposals are in draw order,
    and `law` is what they were drawn from, None where they were not drawn.
    """

    key: PrefixKey
    position: int
    token_ids: tuple[int, ...]
    estimates: tuple[float, ...]
    step: int = 0
    num_proposals: int | None = None
    law: SparseLaw | None = None

    def __post_init__(self) -> None:
        if len(self.token_ids) != len(self.estimates):
            raise ValueError(f"{len(self.token_ids)} tokens, {len(self.estimates)} estimates")

    @property
    def proposals(self) -> tuple[int, ...]:
        return self.token_ids[: self.num_proposals]

    def is_sampled(self, *, vocab_size: int) -> bool:
        """Whether a peer's proposals may come under rule `ratio`: counted, and of the law sent."""
        if self.num_proposals is None or not 0 <= self.num_proposals <= len(self.token_ids):
            return False
        if self.law is None:
            return True
        return self.law.makes_sense(vocab_size=vocab_size)


@dataclass(frozen=True, slots=True)
class SampledCandidates:
    """What rule `ratio` drew after one prefix: proposals in draw order, then keys, best first."""

    token_ids: tuple[int, ...]
    num_proposals: int
    law: SparseLaw | None


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

    def merge(self, expansion: Expansion) -> None:
        """Add an expansion; of one that stands already, only new candidates are taken."""
        known = self._by_key.get(expansion.key)
        if known is not None:
            if not self._keep_first:
                self._by_key[expansion.key] = _merged(known, expansion)
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


def _merged(known: Expansion, other: Expansion) -> Expansion:
    fresh = [
        (token_id, estimate)
        for token_id, estimate in zip(other.token_ids, other.estimates, strict=True)
        if token_id not in known.token_ids
    ]
    if not fresh:
        return known
    both = [*zip(known.token_ids, known.estimates, strict=True), *fresh]
    both.sort(key=lambda candidate: -candidate[1])
    return Expansion(
        key=known.key,
        position=known.position,
        token_ids=tuple(token_id for token_id, _ in both),
        estimates=tuple(estimate for _, estimate in both),
        step=known.step,
        num_proposals=known.num_proposals,
    )
