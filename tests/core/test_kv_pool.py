"""Every slot is held, cached or free; texts share what they have in common, and only that."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssd.core.ids import KvId
from ssd.core.kv_pool import Beginning, KvPool

TEXT = tuple(range(100, 120))


def _begin(
    pool: KvPool,
    name: str,
    text: Sequence[int] = TEXT,
    *,
    num_slots: int | None = None,
    salt: str | None = "",
) -> Beginning:
    beginning = pool.begin(KvId(name), text, num_slots=num_slots or len(text), salt=salt)
    assert beginning is not None, f"no room for {name}"
    pool.check()
    return beginning


def _retire(pool: KvPool, name: str, text: Sequence[int] = TEXT, *, salt: str = "") -> list[KvId]:
    gone = pool.retire(KvId(name), text, len(text), salt=salt, num_used=len(text))
    pool.check()
    return gone


def _cached(pool: KvPool, name: str, text: Sequence[int] = TEXT, *, salt: str = "") -> None:
    _begin(pool, name, text, salt=salt)
    assert name not in _retire(pool, name, text, salt=salt)


def test_a_pool_of_less_than_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="3 KV slots are less than a block of 4"):
        KvPool(3, block_slots=4)


def test_room_is_held_in_whole_blocks() -> None:
    pool = KvPool(42, block_slots=4)
    assert (pool.num_slots, pool.num_free) == (40, 40)
    _begin(pool, "a", num_slots=9)
    assert (pool.held_by(KvId("a")), pool.num_held, pool.num_free) == (12, 12, 28)
    assert pool.grow(KvId("a"), 12) == []
    assert pool.grow(KvId("a"), 13) == []
    assert pool.held_by(KvId("a")) == 16
    pool.shrink(KvId("a"), 5)
    assert pool.held_by(KvId("a")) == 8
    assert pool.close(KvId("a")) == ["a"]
    assert pool.num_free == 40


def test_where_no_room_can_be_made_nothing_happens() -> None:
    pool = KvPool(40, block_slots=4)
    _cached(pool, "old", TEXT[:8])
    _begin(pool, "a", range(20))
    assert pool.begin(KvId("b"), range(30, 60), num_slots=24, salt="") is None
    assert pool.grow(KvId("a"), 44) is None
    pool.check()
    assert (pool.num_held, pool.num_cached, pool.num_evicted) == (20, 8, 0)


def test_a_name_that_holds_kv_cannot_begin_again() -> None:
    pool = KvPool(40, block_slots=4)
    _begin(pool, "a")
    with pytest.raises(ValueError, match="a holds KV already"):
        pool.begin(KvId("a"), TEXT, num_slots=4, salt="")


# ── prefixes ──────────────────────────────────────────────────────────────────────────────────────


def test_a_text_begins_with_the_longest_common_prefix() -> None:
    pool = KvPool(200, block_slots=4)
    _cached(pool, "short", (*TEXT[:6], 1, 1, 1, 1))
    _cached(pool, "long", (*TEXT[:13], 2, 2, 2))
    beginning = _begin(pool, "new", TEXT)
    assert beginning.prefix is not None
    assert (beginning.prefix.kv_id, beginning.prefix.length) == ("long", 13)
    assert (pool.num_prefix_hits, pool.num_prefix_tokens) == (2, 6 + 13)


def test_the_last_token_is_never_covered() -> None:
    pool = KvPool(200, block_slots=4)
    _cached(pool, "a", TEXT)
    assert _begin(pool, "b", TEXT).num_cached == len(TEXT) - 1
    assert _begin(pool, "c", TEXT[:4]).num_cached == 0  # its first block holds its last token


def test_less_than_a_block_in_common_is_nothing() -> None:
    pool = KvPool(200, block_slots=4)
    _cached(pool, "a", TEXT)
    assert _begin(pool, "b", (*TEXT[:3], 1, 1, 1)).prefix is None


def test_different_salts_never_meet() -> None:
    pool = KvPool(200, block_slots=4)
    _cached(pool, "a", TEXT, salt="one")
    assert _begin(pool, "b", TEXT, salt="other").prefix is None
    assert _begin(pool, "c", TEXT, salt=None).prefix is None
    assert _begin(pool, "d", TEXT, salt="one").prefix is not None


def test_equal_hashes_of_different_texts_never_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash proposes, the tokens decide: with one hash for everything nothing goes wrong."""
    monkeypatch.setattr("ssd.core.kv_pool.hash", lambda value: 7, raising=False)
    pool = KvPool(400, block_slots=4)
    _cached(pool, "a", TEXT, salt="one")
    _cached(pool, "b", range(20), salt="two")
    _cached(pool, "c", range(50, 70), salt="one")
    assert _begin(pool, "d", range(20), salt="one").prefix is None
    beginning = _begin(pool, "e", (*TEXT[:9], 1, 2), salt="one")
    assert beginning.prefix is not None
    assert (beginning.prefix.kv_id, beginning.prefix.length) == ("a", 9)


def test_an_open_text_is_a_prefix_for_others_once_published() -> None:
    pool = KvPool(200, block_slots=4)
    _begin(pool, "a", TEXT)
    assert _begin(pool, "b", TEXT).prefix is None
    pool.publish(KvId("a"), TEXT, 10, salt="")
    assert _begin(pool, "c", TEXT).num_cached == 10


def test_only_what_is_settled_is_published() -> None:
    pool = KvPool(200, block_slots=4)
    _begin(pool, "a", TEXT)
    assert pool.retire(KvId("a"), TEXT, 9, salt="", num_used=20) == []
    assert pool.num_cached == 20  # what was written stays until all of it goes
    assert _begin(pool, "b", TEXT).num_cached == 9


def test_a_text_shorter_than_a_block_is_not_kept() -> None:
    pool = KvPool(200, block_slots=4)
    _begin(pool, "a", TEXT[:3])
    assert _retire(pool, "a", TEXT[:3]) == ["a"]
    assert pool.num_free == pool.num_slots


def test_a_text_that_another_covers_is_not_kept_twice() -> None:
    pool = KvPool(200, block_slots=4)
    _cached(pool, "long", TEXT)
    _begin(pool, "short", TEXT[:10])
    assert _retire(pool, "short", TEXT[:10]) == ["short"]
    _begin(pool, "longer", (*TEXT, 1, 2))
    assert _retire(pool, "longer", (*TEXT, 1, 2)) == ["long"]
    assert pool.num_cached == 24


# ── eviction ──────────────────────────────────────────────────────────────────────────────────────


def test_the_least_recently_used_prefix_goes_first() -> None:
    pool = KvPool(40, block_slots=4)
    first, second = range(12), range(50, 62)
    _cached(pool, "first", first)
    _cached(pool, "second", second)
    _begin(pool, "user", (*first, 99), num_slots=4)
    assert _begin(pool, "new", range(200, 216)).evicted == ["second"]
    assert pool.num_evicted == 1


def test_a_prefix_is_not_evicted_for_the_text_that_begins_with_it() -> None:
    pool = KvPool(40, block_slots=4)
    _cached(pool, "used", TEXT[:12])
    _cached(pool, "other", range(12))
    beginning = _begin(pool, "new", TEXT, num_slots=28)
    assert beginning.evicted == ["other"]
    assert beginning.num_cached == 12


def test_unless_there_is_no_other_room() -> None:
    pool = KvPool(40, block_slots=4)
    _cached(pool, "used", TEXT[:12])
    beginning = _begin(pool, "new", TEXT, num_slots=32)
    assert (beginning.evicted, beginning.prefix) == (["used"], None)


class Users:
    """Texts that use a pool, and all KV that a runner under it would have."""

    def __init__(self, num_slots: int) -> None:
        self.pool = KvPool(num_slots, block_slots=2)
        self.held: dict[KvId, tuple[list[int], str | None]] = {}
        self.kept: dict[KvId, tuple[list[int], str | None]] = {}
        self.num_begun = 0

    def begin(self, text: list[int], salt: str | None) -> list[KvId]:
        self.num_begun += 1
        kv_id = KvId(str(self.num_begun))
        beginning = self.pool.begin(kv_id, text, num_slots=len(text), salt=salt)
        if beginning is None:
            return []
        if beginning.prefix is not None:
            donor, donor_salt = self.kept[beginning.prefix.kv_id]
            length = beginning.prefix.length
            assert (donor[:length], donor_salt) == (text[:length], salt)
            assert beginning.prefix.kv_id not in beginning.evicted
            assert 0 < length < len(text)
        self.held[kv_id] = self.kept[kv_id] = (text, salt)
        return beginning.evicted

    def use(self, verb: str, number: int) -> list[KvId]:
        """Do something to one of the texts in progress; whose KV goes."""
        name = sorted(self.held)[number % len(self.held)]
        text, salt = self.held[name]
        length = min(len(text), number)
        if verb == "grow":
            return self.pool.grow(name, len(text) + number) or []
        if verb == "shrink":
            self.pool.shrink(name, len(text))
        elif verb == "publish" and salt is not None:
            self.pool.publish(name, text, length, salt=salt)
        elif verb == "retire" and salt is not None:
            del self.held[name]
            return self.pool.retire(name, text, length, salt=salt, num_used=len(text))
        elif verb == "close":
            del self.held[name]
            return self.pool.close(name)
        return []

    def forget(self, gone: list[KvId]) -> None:
        for kv_id in gone:
            assert kv_id not in self.held
            del self.kept[kv_id]
        self.pool.check()


VERBS = st.tuples(
    st.sampled_from(("begin", "begin", "grow", "shrink", "publish", "retire", "retire", "close")),
    st.integers(0, 9),
    st.lists(st.integers(0, 1), min_size=1, max_size=14),
    st.sampled_from(("", "salt", None)),
)


@given(st.integers(4, 60), st.lists(VERBS, max_size=60))
def test_books_hold_and_prefixes_are_true_under_any_sequence_of_calls(
    num_slots: int, verbs: list[tuple[str, int, list[int], str | None]]
) -> None:
    users = Users(num_slots)
    for verb, number, text, salt in verbs:
        if verb == "begin":
            users.forget(users.begin(text, salt))
        elif users.held:
            users.forget(users.use(verb, number))
    while users.held:
        users.forget(users.use("close", 0))
    users.forget(users.pool.drop_cached())
    assert not users.kept
    assert users.pool.num_free == users.pool.num_slots
