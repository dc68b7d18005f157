"""The n-gram drafter of one text: what was said before is likely to be said again.

It needs no model: what it remembers is the prompt and the output. Its expansions are those of any
drafter, and what their estimates are worth the verifier counts like any other's.
"""

import heapq
from collections.abc import Sequence
from dataclasses import replace

from ssd.core.drafter_kind import DrafterKind
from ssd.core.expansion import Expansion
from ssd.core.ids import PrefixKey
from ssd.core.keys import EMPTY_KEY, extend_key, key_of
from ssd.core.ngram_limits import NgramForm, NgramLimits, estimate_of
from ssd.core.ngram_table import NgramTable
from ssd.core.suffix_index import SuffixIndex

_CATCH_UP = 2048  # tokens at most that one call remembers: a few milliseconds
_LEAST_REACH = 0.02


class NgramText:
    """The committed text as far as it was told, and what to expect after it.

    `shared` is a table that several texts fill; without one a text has its own.
    """

    def __init__(self, limits: NgramLimits, *, shared: NgramTable | None = None) -> None:
        self._limits = limits
        self._text: list[int] = []
        self._key: PrefixKey = EMPTY_KEY
        self._learnt_len = 0
        self._index: SuffixIndex | None = None
        self._table = shared
        if limits.form is NgramForm.SIMPLE:
            self._index = SuffixIndex(self._text, limits)
        elif shared is None:
            self._table = NgramTable(limits)

    @property
    def length(self) -> int:
        return len(self._text)

    @property
    def key(self) -> PrefixKey:
        return self._key

    def extend(self, token_ids: Sequence[int]) -> None:
        """The text goes on; part of a long piece is remembered now, the rest at the next calls."""
        self._text += token_ids
        self._key = key_of(token_ids, start=self._key)
        if self._index is not None:
            self._index.catch_up(_CATCH_UP)
        else:
            self._learn(_CATCH_UP)

    def grow(self, *, max_depth: int, step: int = 0) -> tuple[Expansion, ...]:
        """Likely continuations, a parent before its children; `step` names this look-up."""
        depth, max_nodes = min(max_depth, self._limits.size_m), self._limits.max_nodes
        if not self._text or depth < 1:
            return ()
        if self._index is not None:
            return self._chain(self._index, min(depth, max_nodes), step)
        assert self._table is not None
        return self._tree(self._table, max_nodes, depth, step)

    def _chain(self, index: SuffixIndex, depth: int, step: int) -> tuple[Expansion, ...]:
        found = index.find()
        if found is None:
            return ()
        place, matched_len = found
        end, key = len(self._text), self._key
        drafted: list[int] = []
        expansions = []
        for ahead in range(depth):
            source = place + ahead
            token_id = self._text[source] if source < end else drafted[source - end]
            estimate = estimate_of(max(matched_len + ahead, 1))
            expansions.append(_said(key, end + ahead, (token_id,), (estimate,), step))
            key = extend_key(key, token_id)
            drafted.append(token_id)
        return tuple(expansions)

    def _tree(
        self, table: NgramTable, max_nodes: int, depth: int, step: int
    ) -> tuple[Expansion, ...]:
        """Best first from the cursor; a node is one look-up of the text with its path."""
        longest = self._limits.size_n
        frontier = [(-1.0, 0, self._key, tuple(self._text[-longest:]), len(self._text))]
        expansions, num_nodes, num_pushed = [], 0, 0
        while frontier and num_nodes < max_nodes:
            minus_reach, _, key, before, position = heapq.heappop(frontier)
            if position >= len(self._text) + depth:
                continue
            candidates = table.look_up(before)[: max_nodes - num_nodes]
            if not candidates:
                continue
            token_ids, estimates = zip(*candidates, strict=True)
            expansions.append(_said(key, position, token_ids, estimates, step))
            num_nodes += len(token_ids)
            for token_id, estimate in candidates:
                if -minus_reach * estimate >= _LEAST_REACH:
                    num_pushed += 1
                    after = (*before, token_id)[-longest:]
                    child = extend_key(key, token_id)
                    entry = (minus_reach * estimate, num_pushed, child, after, position + 1)
                    heapq.heappush(frontier, entry)
        return tuple(expansions)

    def _learn(self, max_tokens: int) -> None:
        assert self._table is not None
        longest = self._limits.size_n
        end = min(len(self._text), self._learnt_len + max_tokens)
        for place in range(max(self._learnt_len, 1), end):
            self._table.learn(self._text[max(place - longest, 0) : place], self._text[place])
        self._learnt_len = end


def as_point_mass(expansion: Expansion) -> Expansion:
    """The same under rule `ratio`: one proposal, which was not drawn, and keys."""
    return replace(expansion, num_proposals=1)


def _said(
    key: PrefixKey,
    position: int,
    token_ids: tuple[int, ...],
    estimates: tuple[float, ...],
    step: int,
) -> Expansion:
    return Expansion(key, position, token_ids, estimates, step, source=DrafterKind.NGRAM)
