"""KV on the verifier: admission, growth, prefixes, and who gives way when there is too little."""

from dataclasses import replace
from typing import Any

import pytest

from ssd.core.ids import Epoch, SessionId
from ssd.core.messages import Close, Commit, Open, Refused
from ssd.core.mode import Mode
from ssd.core.price import CostModel
from ssd.core.verifier_session import VerifierSession
from tests.core.verifier_bench import LIMITS, MODEL, Bench

TREE = LIMITS.tree_slots
LONG = replace(LIMITS, context_len=2000, kv_slots=2400, kv_block=16)
PROMPT = tuple(index % 11 for index in range(40))


def _bench(**limits: Any) -> Bench:
    return Bench(replace(LONG, **limits))


def _session(bench: Bench, name: str) -> VerifierSession:
    return bench.core.sessions[SessionId(name)]


def _refusals(bench: Bench) -> dict[str, str]:
    return {each.session_id: each.kind for each in bench.said if isinstance(each, Refused)}


# ── admission and growth ──────────────────────────────────────────────────────────────────────────


def test_a_session_is_admitted_with_room_for_some_of_its_output_only() -> None:
    bench = _bench()
    bench.open(PROMPT, max_len=1900)
    assert _session(bench, "a").slots.capacity == 320  # 40 + 256 + 9 in blocks of 16
    bench.open(PROMPT, max_len=50, session="b")
    assert _session(bench, "b").slots.capacity == 64


def test_a_session_grows_by_blocks_and_leaves_nothing() -> None:
    bench = _bench()
    bench.attach()
    bench.open(PROMPT, max_len=700)
    capacities = set()
    while bench.core.sessions:
        capacities.add(_session(bench, "a").slots.capacity)
        bench.round()
    assert capacities == {*range(320, 721, 16)}  # and never more than the text can come to need
    assert bench.core.room.pool.num_free == bench.core.room.pool.num_slots
    assert not bench.memory.kv_ids


def test_what_could_never_end_is_not_begun() -> None:
    bench = _bench(kv_slots=200)
    bench.open(PROMPT, max_len=400)
    assert _refusals(bench) == {"a": "NoCapacity"}
    assert "may come to need 409 KV slots and there are 192" in bench.refusal().message


def test_admission_takes_nothing_from_running_sessions() -> None:
    bench = _bench(kv_slots=640)
    bench.open(PROMPT, max_len=600)
    bench.open(PROMPT, max_len=600, session="b")
    bench.open(PROMPT, max_len=600, session="c")
    assert _refusals(bench) == {"c": "NoCapacity"}
    assert bench.core.room.num_preempted == 0


# ── who gives way ─────────────────────────────────────────────────────────────────────────────────


def _run_until_refused(bench: Bench) -> None:
    while not _refusals(bench):
        bench.round()


def test_the_newest_gives_way_first_its_drafts_and_then_itself() -> None:
    bench = _bench(kv_slots=960)
    bench.attach()
    for name in ("a", "b", "c"):
        bench.open(PROMPT, max_len=900, session=name)
    bench.drafted.clear()
    _run_until_refused(bench)
    assert _refusals(bench) == {"c": "Preempted"}
    room = bench.core.room
    assert (room.num_preempted, room.num_undrafted) == (1, 1)
    closed = [each.message.session_id for each in bench.drafted if isinstance(each.message, Close)]
    assert set(closed) == {"c"}
    assert set(bench.core.sessions) == {"a", "b"}
    assert _session(bench, "a").is_drafted


def test_the_oldest_ends_even_when_all_others_must_go() -> None:
    bench = _bench(kv_slots=960)
    for name in ("a", "b", "c"):
        bench.open(PROMPT, max_len=900, session=name)
    bench.run_out()
    assert _refusals(bench) == {"b": "Preempted", "c": "Preempted"}
    assert len(bench.commits("a")) == 860
    assert bench.core.room.num_preempted == 2


def test_a_preempted_session_goes_on_from_its_text_under_a_newer_epoch() -> None:
    bench = _bench(kv_slots=960)
    for name in ("a", "b", "c"):
        bench.open(PROMPT, max_len=900, session=name, salt="")
    _run_until_refused(bench)
    text = [*PROMPT, *(token for each in bench.commits("c") for token in each.token_ids)]
    bench.take(bench.core.close(Close(SessionId("a"), Epoch(1))))
    bench.take(bench.core.close(Close(SessionId("b"), Epoch(1))))
    bench.open(text, max_len=900, session="c", epoch=2, salt="")
    assert bench.core.sessions[SessionId("c")].num_cached > len(PROMPT)  # its KV was still there
    bench.run_out()
    said = [token for each in bench.commits("c") for token in each.token_ids]
    assert tuple(said) == MODEL.continue_text(PROMPT, max_len=900)


def test_a_session_without_drafts_for_want_of_room_is_offered_again() -> None:
    bench = _bench(kv_slots=960)
    bench.attach()
    for name in ("a", "b", "c"):
        bench.open(PROMPT, max_len=900, session=name)
        for _ in range(30):
            bench.round()
    while not bench.core.room.num_undrafted:
        bench.round()
    assert not _session(bench, "c").is_drafted
    bench.take(bench.core.close(Close(SessionId("b"), Epoch(1))))
    bench.drafted.clear()
    for _ in range(70):
        bench.round()
    assert _session(bench, "c").is_drafted
    offered = [each.message for each in bench.drafted if isinstance(each.message, Open)]
    assert [each.session_id for each in offered] == ["c"]
    assert len(offered[0].token_ids) > len(PROMPT)


def test_a_drafter_that_had_no_room_is_asked_again() -> None:
    bench = _bench()
    bench.attach()
    bench.open(PROMPT, max_len=900)
    refusal = Refused(SessionId("a"), Epoch(1), "NoCapacity", "full")
    bench.take(bench.core.drafter_refused(refusal, drafter_id="drafter"))
    assert not _session(bench, "a").is_drafted
    bench.drafted.clear()
    for _ in range(70):
        bench.round()
    assert [each for each in bench.drafted if isinstance(each.message, Open)]
    assert _session(bench, "a").is_drafted


# ── prefixes ──────────────────────────────────────────────────────────────────────────────────────


def test_a_second_request_runs_only_what_the_first_did_not() -> None:
    bench = _bench()
    bench.open(PROMPT, max_len=60, salt="")
    bench.run_out()
    before = bench.memory.num_rows
    bench.open((*PROMPT, 5), max_len=43, session="b", salt="")
    bench.run_out()
    first, *others = [each.record for each in bench.commits("b")]
    assert first is not None
    assert first.num_cached == len(PROMPT)
    assert bench.memory.num_rows - before == 2  # two roots, no prefill
    assert len(others) == 1


def test_a_prompt_is_shared_as_soon_as_it_is_in_the_kv() -> None:
    bench = _bench()
    bench.open(PROMPT, max_len=600, salt="")
    bench.round()
    bench.open(PROMPT, max_len=600, session="b", salt="")
    assert _session(bench, "b").num_cached == len(PROMPT) - 1
    assert not _session(bench, "b").is_prefilling


def test_what_is_not_in_the_kv_yet_is_not_shared() -> None:
    bench = _bench()
    bench.open(PROMPT, max_len=600, salt="")
    bench.open(PROMPT, max_len=600, session="b", salt="")
    assert _session(bench, "b").num_cached == 0


@pytest.mark.parametrize("salts", [("one", "other"), (None, None), ("one", None)])
def test_salts_part_what_may_not_meet(salts: tuple[str | None, str | None]) -> None:
    bench = _bench()
    bench.open(PROMPT, max_len=60, salt=salts[0])
    bench.run_out()
    bench.open(PROMPT, max_len=60, session="b", salt=salts[1])
    assert _session(bench, "b").num_cached == 0


def test_prefixes_go_before_anyone_is_disturbed() -> None:
    bench = _bench(kv_slots=960)
    bench.attach()
    bench.open(range(11), max_len=600, salt="")
    bench.run_out()
    assert bench.core.room.pool.num_cached > 500
    for name in ("b", "c"):
        bench.open(PROMPT, max_len=400, session=name, salt="")
    bench.run_out()
    assert bench.core.room.pool.num_evicted == 1
    assert (bench.core.room.num_undrafted, bench.core.room.num_preempted) == (0, 0)


# ── prefill ───────────────────────────────────────────────────────────────────────────────────────


def test_a_long_prompt_never_stalls_others_for_more_than_a_chunk() -> None:
    bench = _bench(max_rows=32)
    bench.open(PROMPT[:3], max_len=200, session="short")
    bench.round()
    bench.open(PROMPT * 20, max_len=1000, session="long")
    while _session(bench, "long").is_prefilling:
        before = len(bench.commits("short"))
        done = bench.round()
        assert done.num_rows <= 32
        assert len(bench.commits("short")) == before + 1


def test_a_short_prompt_does_not_wait_for_a_long_one() -> None:
    bench = _bench(max_rows=32)
    bench.open(PROMPT * 20, max_len=1000, session="long")
    bench.round()
    bench.open(PROMPT[:10], max_len=100, session="short")
    done = bench.round()
    rows = {share.session.opening.session_id: len(share.rows.slots) for share in done.shares}
    assert rows == {"short": 10, "long": 22}


def test_nothing_is_said_to_drafters_about_plain_sessions() -> None:
    bench = _bench(kv_slots=960)
    bench.attach()
    for name in ("a", "b", "c"):
        bench.open(PROMPT, max_len=900, session=name, mode=Mode.AR)
    _run_until_refused(bench)
    assert not [each for each in bench.drafted if isinstance(each.message, Open | Close)]


def test_rounds_without_drafts_still_feed_the_drafter() -> None:
    """Case G6: rows too dear for any tree, and every commit goes on to the drafter."""
    bench = Bench(LONG, cost=CostModel([(1, 0.01), (9, 100.0)]))
    bench.attach()
    bench.open(PROMPT, max_len=60)
    bench.round()
    for _ in range(10):
        text = _session(bench, "a").token_ids
        bench.grow_chain(3, text=text)
        assert bench.round().num_rows == 1
    fed = [each.message for each in bench.drafted if isinstance(each.message, Commit)]
    assert [each.base_len for each in fed] == list(range(len(PROMPT), len(PROMPT) + 11))
