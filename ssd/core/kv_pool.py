"""Who holds the KV of one worker: texts in progress, and ended ones kept for those to come.

    slots = held by open texts (committed + live + room ahead) + cached + free

Slots are handed out in blocks. A text holds whole blocks from its opening to its end; then its
settled part may stay as a prefix, unused, until someone needs the room: oldest use first. A new
text that begins like an open or a cached one starts with a copy of their common part. Which text
that is, a hash of its first tokens proposes and the tokens themselves decide; texts with different
salts never meet.

Nothing is ever published but the settled text of a session: what the target said, and is in its
slot.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ssd.core.ids import KvId

BLOCK_SLOTS = 64


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of a text that another text's KV holds."""

    kv_id: KvId
    length: int


@dataclass(frozen=True, slots=True)
class Beginning:
    """What the opening of a text does to the KV: first texts go, then a prefix is copied."""

    evicted: list[KvId]
    prefix: Prefix | None

    @property
    def num_cached(self) -> int:
        return 0 if self.prefix is None else self.prefix.length


@dataclass(frozen=True, slots=True)
class _Published:
    """A text that others may begin with."""

    kv_id: KvId
    salt: str
    token_ids: Sequence[int]
    length: int
    marks: tuple[int, ...]  # one for each whole block, a hash of the text up to its end


class KvPool:
    """Owns the books of all KV slots; `check()` holds after every call."""

    def __init__(self, num_slots: int, *, block_slots: int = BLOCK_SLOTS) -> None:
        if num_slots < block_slots:
            raise ValueError(f"{num_slots} KV slots are less than a block of {block_slots}")
        self.block_slots = block_slots
        self.num_blocks = num_slots // block_slots
        self.num_prefix_hits = 0
        self.num_prefix_tokens = 0
        self.num_evicted = 0
        self._open: dict[KvId, int] = {}  # blocks of texts in progress
        self._cached: dict[KvId, int] = {}  # blocks of ended texts, least recently used first
        self._published: dict[KvId, _Published] = {}
        self._by_mark: dict[int, dict[KvId, None]] = {}  # texts that pass a mark
        self._ending: dict[int, dict[KvId, None]] = {}  # texts whose last mark it is

    @property
    def num_slots(self) -> int:
        return self.num_blocks * self.block_slots

    @property
    def num_held(self) -> int:
        """Slots of texts in progress."""
        return sum(self._open.values()) * self.block_slots

    @property
    def num_cached(self) -> int:
        """Slots of ended texts that may go at any time."""
        return sum(self._cached.values()) * self.block_slots

    @property
    def num_free(self) -> int:
        return self.num_slots - self.num_held - self.num_cached

    def held_by(self, kv_id: KvId) -> int:
        """Slots that a text in progress may use."""
        return self._open[kv_id] * self.block_slots

    def begin(
        self, kv_id: KvId, token_ids: Sequence[int], *, num_slots: int, salt: str | None
    ) -> Beginning | None:
        """Hold room for `num_slots`, and find the longest known beginning of the text.

        None, and nothing happened, where no room can be made. The last token is never covered: the
        text continues after its row. A text without salt begins with nothing.
        """
        if kv_id in self._open or kv_id in self._cached:
            raise ValueError(f"{kv_id} holds KV already")
        prefix = self._find_prefix(token_ids, salt) if salt is not None else None
        num_blocks = self._blocks(num_slots)
        evicted = self._evict_for(num_blocks, keep=None if prefix is None else prefix.kv_id)
        if evicted is None and prefix is not None:
            prefix, evicted = None, self._evict_for(num_blocks)
        if evicted is None:
            return None
        self._open[kv_id] = num_blocks
        if prefix is not None:
            self._touch(prefix.kv_id)
            self.num_prefix_hits += 1
            self.num_prefix_tokens += prefix.length
        return Beginning(evicted, prefix)

    def grow(self, kv_id: KvId, num_slots: int) -> list[KvId] | None:
        """Give a text room for `num_slots` in all; which unused texts had to go for it.

        None, and nothing happened, where no room can be made.
        """
        more = max(self._blocks(num_slots) - self._open[kv_id], 0)
        evicted = self._evict_for(more)
        if evicted is not None:
            self._open[kv_id] += more
        return evicted

    def shrink(self, kv_id: KvId, num_slots: int) -> None:
        """Take back whole blocks beyond `num_slots`."""
        self._open[kv_id] = min(self._blocks(num_slots), self._open[kv_id])

    def publish(self, kv_id: KvId, token_ids: Sequence[int], length: int, *, salt: str) -> None:
        """Others may begin with the first `length` tokens of an open text, which are settled."""
        self._unpublish(kv_id)
        marks = tuple(_marks(token_ids, length, salt=salt, block_slots=self.block_slots))
        if not marks:
            return
        self._published[kv_id] = _Published(kv_id, salt, token_ids, length, marks)
        for mark in marks:
            self._by_mark.setdefault(mark, {})[kv_id] = None
        self._ending.setdefault(marks[-1], {})[kv_id] = None

    def retire(
        self, kv_id: KvId, token_ids: Sequence[int], length: int, *, salt: str, num_used: int
    ) -> list[KvId]:
        """A text ends and its first `length` tokens, settled, stay as a prefix; whose KV may go.

        `num_used` slots of it were ever written. It goes itself where an unused text holds as much;
        unused texts that hold less than it go.
        """
        self.publish(kv_id, token_ids, length, salt=salt)
        known = self._published.get(kv_id)
        if known is None:
            return self.close(kv_id)
        if any(_covers(other, known) for other in self._unused(self._by_mark, known.marks[-1:])):
            return self.close(kv_id)
        covered = [
            other.kv_id
            for other in self._unused(self._ending, known.marks)
            if _covers(known, other)
        ]
        for each in covered:
            self._forget(each)
        self._cached[kv_id] = min(self._blocks(num_used), self._open.pop(kv_id))
        return covered

    def close(self, kv_id: KvId) -> list[KvId]:
        """A text ends and leaves nothing; whose KV may go: its own."""
        del self._open[kv_id]
        self._unpublish(kv_id)
        return [kv_id]

    def drop_cached(self) -> list[KvId]:
        """Forget all unused texts; whose KV may go."""
        dropped = list(self._cached)
        for kv_id in dropped:
            self._forget(kv_id)
        return dropped

    def check(self) -> None:
        """Every slot is held, cached or free, and what is published has its KV."""
        assert self.num_free >= 0, f"{-self.num_free} KV slots more than there are"
        assert self.num_held + self.num_cached + self.num_free == self.num_slots
        assert not self._open.keys() & self._cached.keys()
        assert self._cached.keys() <= self._published.keys() <= self._open.keys() | self._cached
        for kv_id, known in self._published.items():
            blocks = self._open.get(kv_id, 0) + self._cached.get(kv_id, 0)
            assert known.length <= blocks * self.block_slots, f"{kv_id} publishes what it lost"
            assert all(kv_id in self._by_mark[mark] for mark in known.marks)
            assert kv_id in self._ending[known.marks[-1]]
        named = {kv_id for holders in self._by_mark.values() for kv_id in holders}
        assert named == self._published.keys(), "a mark leads to a text that is gone"

    def _blocks(self, num_slots: int) -> int:
        return -(-num_slots // self.block_slots)

    def _evict_for(self, num_blocks: int, *, keep: KvId | None = None) -> list[KvId] | None:
        """Free as many blocks; None, and nothing happened, where they cannot be."""
        missing = num_blocks - self.num_free // self.block_slots
        evicted: list[KvId] = []
        for kv_id, blocks in self._cached.items():
            if missing <= 0:
                break
            if kv_id != keep:
                missing -= blocks
                evicted.append(kv_id)
        if missing > 0:
            return None
        for kv_id in evicted:
            self._forget(kv_id)
        self.num_evicted += len(evicted)
        return evicted

    def _touch(self, kv_id: KvId) -> None:
        if kv_id in self._cached:
            self._cached[kv_id] = self._cached.pop(kv_id)

    def _forget(self, kv_id: KvId) -> None:
        del self._cached[kv_id]
        self._unpublish(kv_id)

    def _find_prefix(self, token_ids: Sequence[int], salt: str) -> Prefix | None:
        limit = len(token_ids) - 1
        marks = list(_marks(token_ids, limit, salt=salt, block_slots=self.block_slots))
        for mark in reversed(marks):
            for kv_id in self._by_mark.get(mark, ()):
                known = self._published[kv_id]
                length = _common_len(known, token_ids, salt=salt, limit=limit)
                if length >= self.block_slots:
                    return Prefix(kv_id, length)
        return None

    def _unused(
        self, index: dict[int, dict[KvId, None]], marks: Sequence[int]
    ) -> Iterator[_Published]:
        for mark in marks:
            for kv_id in index.get(mark, ()):
                if kv_id in self._cached:
                    yield self._published[kv_id]

    def _unpublish(self, kv_id: KvId) -> None:
        known = self._published.pop(kv_id, None)
        if known is None:
            return
        for mark in known.marks:
            _remove(self._by_mark, mark, kv_id)
        _remove(self._ending, known.marks[-1], kv_id)


def _remove(index: dict[int, dict[KvId, None]], mark: int, kv_id: KvId) -> None:
    holders = index[mark]
    holders.pop(kv_id, None)
    if not holders:
        del index[mark]


def _marks(token_ids: Sequence[int], length: int, *, salt: str, block_slots: int) -> Iterator[int]:
    """A hash for each whole block of the first `length` tokens, of all text up to its end."""
    mark = hash(salt)
    for end in range(block_slots, length + 1, block_slots):
        mark = hash((mark, tuple(token_ids[end - block_slots : end])))
        yield mark


def _common_len(known: _Published, token_ids: Sequence[int], *, salt: str, limit: int) -> int:
    """How many first tokens two texts really share, 0 under different salts."""
    if known.salt != salt:
        return 0
    limit = min(limit, known.length)
    if tuple(known.token_ids[:limit]) == tuple(token_ids[:limit]):
        return limit
    pairs = zip(known.token_ids[:limit], token_ids, strict=False)
    return next(index for index, (one, other) in enumerate(pairs) if one != other)


def _covers(longer: _Published, other: _Published) -> bool:
    """Whether all that one text offers another offers too."""
    common = _common_len(longer, other.token_ids, salt=other.salt, limit=other.length)
    return common == other.length
