"""Drafters come, go, refuse and lose their place; the next tree hits or misses."""

from itertools import count, islice

import pytest

from ssd.core.drafter_kind import DrafterKind
from ssd.core.expansion import Expansion
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.ledger import Ledger, LedgerEntry
from ssd.core.messages import (
    Close,
    Commit,
    Need,
    Open,
    Rates,
    Refused,
)
from ssd.core.mode import Mode
from ssd.core.rounds import Lookup
from tests.core.verifier_bench import TEXT, VOCAB_SIZE, Bench, chain, plain


def test_a_new_session_is_opened_on_all_drafters() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    [sent] = bench.drafted
    assert isinstance(sent.message, Open)
    assert sent.drafter_id is None


def test_a_new_drafter_gets_all_sessions_as_they_stand() -> None:
    bench = Bench()
    bench.open(session="a")
    bench.open(session="b", mode=Mode.AR)
    bench.round()
    bench.attach("late")
    [sent] = bench.drafted
    assert isinstance(sent.message, Open)
    assert (sent.drafter_id, sent.message.session_id) == ("late", "a")
    assert sent.message.token_ids == (*TEXT, *plain(1))
    assert sent.message.prompt_len == 3


def test_commits_go_to_the_drafters() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    bench.grow(is_exhausted=True)
    bench.prefill()
    bench.round()
    assert bench.told_drafters == [Open, Commit]
    assert bench.drafted[-1].message == bench.commits()[0]


def test_without_a_drafter_nothing_is_sent() -> None:
    bench = Bench()
    bench.open()
    bench.round()
    bench.round()
    assert bench.drafted == []


def test_a_lost_drafter_is_not_waited_for_and_its_drafts_stay_useful() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    bench.grow_chain(2)
    bench.prefill()
    bench.take(bench.core.drafter_lost("drafter"))
    assert bench.start().num_rows == 3


def test_a_cursor_that_was_expanded_by_a_lost_drafter_is_a_hit() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    bench.grow_chain(1)
    bench.grow(*chain(4)[2:])
    bench.prefill()
    bench.take(bench.core.drafter_lost("drafter"))
    bench.round()
    record = bench.commits()[0].record
    assert record is not None
    assert record.lookup is Lookup.HIT


def test_a_drafter_that_returns_gets_the_sessions_again() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    bench.take(bench.core.drafter_lost("drafter"))
    bench.attach()
    assert bench.told_drafters == [Open, Open]
    assert bench.core.sessions[SessionId("a")].is_drafted


def test_one_of_two_drafters_lost_leaves_the_other() -> None:
    bench = Bench()
    bench.attach("one")
    bench.attach("two")
    bench.open()
    bench.take(bench.core.drafter_lost("one"))
    assert bench.core.sessions[SessionId("a")].is_drafted


def test_a_drafter_that_needs_the_text_gets_it() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    bench.take(bench.core.need(Need(SessionId("a"), Epoch(1), 0), drafter_id="drafter"))
    assert bench.told_drafters == [Open, Open]
    assert bench.drafted[1].drafter_id == "drafter"


@pytest.mark.parametrize(("session", "epoch"), [("b", 1), ("a", 0)])
def test_a_need_of_another_session_or_epoch_is_stale(session: str, epoch: int) -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    need = Need(SessionId(session), Epoch(epoch), 0)
    assert bench.core.need(need, drafter_id="drafter") == []
    assert bench.core.num_stale == 1


def _refuse(bench: Bench, session: str = "a", drafter_id: str = "drafter") -> None:
    refusal = Refused(SessionId(session), Epoch(1), "NoCapacity", "")
    bench.take(bench.core.drafter_refused(refusal, drafter_id=drafter_id))


def test_a_session_that_a_drafter_refuses_goes_on_without() -> None:
    bench = Bench()
    bench.attach()
    bench.open(max_len=10)
    _refuse(bench)
    bench.run_out()
    assert bench.text() == plain(7)
    records = [each.record for each in bench.commits()]
    assert {each.lookup for each in records if each} == {Lookup.MISS_ABSENT, Lookup.LAST}


def test_a_session_that_one_of_two_drafters_refuses_is_still_closed_on_the_other() -> None:
    bench = Bench()
    bench.attach("one")
    bench.attach("two")
    bench.open()
    _refuse(bench, drafter_id="one")
    bench.take(bench.core.close(Close(SessionId("a"), Epoch(1))))
    assert bench.told_drafters[-1] is Close


def test_rates_are_shared_once_a_second() -> None:
    bench = Bench()
    bench.attach()
    bench.open(session="a", max_len=64)
    while bench.now < 103.0 and bench.core.sessions:
        bench.round()
        bench.now += 0.1
    sent = [each.message for each in bench.drafted if isinstance(each.message, Rates)]
    assert len(sent) in (3, 4)


def _drafter_ledger(bench: Bench, *held: tuple[str, int], drafter_id: str = "drafter") -> None:
    entries = tuple(
        LedgerEntry(SessionId(name), Epoch(epoch), 3, key_of(TEXT), 2, 1) for name, epoch in held
    )
    bench.take(bench.core.drafter_ledger(Ledger(1, entries), drafter_id=drafter_id))


def test_a_session_missing_in_two_ledgers_of_a_drafter_is_opened_there_anew() -> None:
    """In one only, its opening may still have been on the way."""
    bench = Bench()
    bench.attach("one")
    bench.attach("two")
    bench.open()
    _drafter_ledger(bench, ("a", 1), drafter_id="two")
    _drafter_ledger(bench, drafter_id="one")
    _drafter_ledger(bench, ("a", 1), drafter_id="one")
    _drafter_ledger(bench, drafter_id="one")
    assert bench.told_drafters == [Open]
    _drafter_ledger(bench, ("a", 0), drafter_id="one")
    assert bench.told_drafters == [Open, Open]
    assert bench.drafted[1].drafter_id == "one"


def test_a_session_that_a_drafter_should_not_hold_is_closed_there() -> None:
    bench = Bench()
    bench.attach()
    _drafter_ledger(bench, ("gone", 3))
    [output] = bench.drafted
    assert output.message == Close(SessionId("gone"), Epoch(3))
    assert output.drafter_id == "drafter"


def test_a_session_that_a_drafter_refused_is_not_missed_there() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    _refuse(bench)
    for _ in range(3):
        _drafter_ledger(bench)
    assert bench.told_drafters == [Open]


def _lookup_of_first(bench: Bench) -> Lookup:
    bench.prefill()
    bench.round()
    record = bench.commits()[0].record
    assert record is not None
    return record.lookup


def test_an_expansion_below_the_cursor_is_a_hit() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    bench.grow(*chain(3)[2:], *chain(1), is_exhausted=True)
    assert _lookup_of_first(bench) is Lookup.HIT


def test_a_bonus_token_that_was_not_listed_is_a_miss_by_key() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    wrong = next(each for each in range(VOCAB_SIZE) if each != plain(1)[0])
    bench.grow(Expansion(key_of(TEXT), 3, (wrong,), (0.5,)), is_exhausted=True)
    assert _lookup_of_first(bench) is Lookup.MISS_KEY


def test_a_bonus_token_below_an_unexpanded_node_is_late() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    bench.grow_chain(1)
    bench.grow(is_exhausted=True)
    assert _lookup_of_first(bench) is Lookup.MISS_LATE


def test_without_a_drafter_the_miss_is_absent() -> None:
    bench = Bench()
    bench.open()
    assert _lookup_of_first(bench) is Lookup.MISS_ABSENT


def test_a_model_that_was_wrong_for_everybody_is_offered_few_new_sessions() -> None:
    bench = Bench()
    bench.attach()
    counts = bench.core.planner.rates[0].of(DrafterKind.MODEL)
    numbers = count()

    def num_offered(num_opened: int, *, mode: Mode = Mode.SSD) -> int:
        before = bench.told_drafters.count(Open)
        for number in islice(numbers, num_opened):
            bench.open(session=f"s{number}", max_len=8, mode=mode)
        return bench.told_drafters.count(Open) - before

    for _ in range(39):
        counts.record(0, 0.8, is_match=False)
    assert num_offered(2) == 2, "not yet sure"
    counts.record(0, 0.8, is_match=False)
    assert num_offered(32) == 2, "one in sixteen"
    assert num_offered(2, mode=Mode.SD) == 2, "for comparison"
    for _ in range(10):
        counts.record(0, 0.8, is_match=True)
    assert num_offered(3) == 3, "it is right again"
