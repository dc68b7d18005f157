"""The verifier: what it accepts, what it runs, what it says, and when it waits."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ssd.core.errors import EngineBroken
from ssd.core.expansion import Expansion
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.ledger import Ledger, LedgerEntry
from ssd.core.logprobs import LogprobsWanted
from ssd.core.messages import (
    Close,
    Commit,
    Finished,
    FinishReason,
    Grow,
    Need,
    Open,
    Rates,
    Refused,
    Resume,
)
from ssd.core.mode import Mode
from ssd.core.price import CostModel
from ssd.core.rounds import GrowthSpan, Lookup
from ssd.core.verifier import Verifier
from ssd.core.verifier_limits import VerifierLimits
from ssd.core.verifier_outputs import CopyKv, Output, ReleaseKv, ToCoordinator, ToDrafter
from ssd.core.verifier_round import Idle, Round
from tests.models.scripted_model import ScriptedModel
from tests.models.slot_memory import SlotMemory

TEXT = (3, 1, 4)
VOCAB_SIZE = 12
MODEL = ScriptedModel(vocab_size=VOCAB_SIZE, seed=5)
LIMITS = VerifierLimits(
    vocab_size=VOCAB_SIZE, context_len=64, kv_slots=1000, kv_block=1, max_nodes=8, sd_depth=3
)
FREE_ROWS = CostModel([(1, 0.01), (9, 0.01)])
ROUND_S = 0.01


class Bench:
    """A verifier with a target under it, and a clock that only rounds move."""

    def __init__(
        self, limits: VerifierLimits = LIMITS, *, cost: CostModel = FREE_ROWS, now: float = 100.0
    ) -> None:
        self.core = Verifier(limits, cost)
        self.memory = SlotMemory()
        self.now = now
        self.said: list[Commit | Finished | Refused] = []
        self.drafted: list[ToDrafter] = []

    def open(
        self,
        text: Sequence[int] = TEXT,
        *,
        session: str = "a",
        epoch: int = 1,
        max_len: int = 60,
        stops: Sequence[int] = (),
        mode: Mode = Mode.SSD,
        salt: str | None = None,
    ) -> None:
        opening = Open(
            SessionId(session),
            Epoch(epoch),
            tuple(text),
            len(text),
            max_len,
            stop_token_ids=frozenset(stops),
            mode=mode,
            cache_salt=salt,
        )
        self.take(self.core.open(opening, owner="coordinator"))

    def attach(self, drafter_id: str = "drafter") -> None:
        self.take(self.core.drafter_attached(drafter_id))

    def grow(
        self,
        *expansions: Expansion,
        session: str = "a",
        epoch: int = 1,
        base_len: int = 3,
        is_exhausted: bool = False,
    ) -> None:
        grow = Grow(SessionId(session), Epoch(epoch), base_len, expansions, is_exhausted)
        self.take(self.core.grow(grow, now=self.now))

    def grow_chain(self, depth: int, *, text: Sequence[int] = TEXT, session: str = "a") -> None:
        """The target's own continuation, as a drafter that is always right would send it."""
        self.grow(*_chain(depth, text), session=session, base_len=len(text))

    def take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, ReleaseKv):
                self.memory.release(output.kv_id)
            elif isinstance(output, CopyKv):
                self.memory.copy(output.source, output.target, output.num_slots)
            elif isinstance(output, ToDrafter):
                self.drafted.append(output)
            elif isinstance(output, ToCoordinator):
                self.said.append(output.message)
        self.core.check()

    def start(self) -> Round:
        action = self.core.next_action(self.now)
        assert isinstance(action, Round), f"nothing to run: {action}"
        return action

    def finish(self, done: Round) -> None:
        seen = self.memory.forward(done.groups)
        target = [[MODEL.next_token(prefix) for prefix in prefixes] for prefixes in seen]
        launch_s, self.now = self.now, self.now + ROUND_S
        self.take(self.core.round_done(done, target, launch_s=launch_s, end_s=self.now))
        for session in self.core.sessions.values():
            assert session.is_prefilling or session.kv_len == session.committed_len - 1

    def round(self) -> Round:
        """Run the next round; waits for nobody."""
        while isinstance(action := self.core.next_action(self.now), Idle):
            assert action.until is not None, "nothing to run"
            self.now = action.until
        self.finish(action)
        return action

    def prefill(self) -> None:
        """A round that has no place for the root: the next one may verify what was drafted."""
        planner = self.core.planner
        planner._limits = replace(self.core.limits, max_rows=len(TEXT) - 1)
        self.round()
        planner._limits = self.core.limits

    def run_out(self) -> None:
        while self.core.sessions:
            self.round()

    def commits(self, session: str = "a") -> list[Commit]:
        return [
            each for each in self.said if isinstance(each, Commit) and each.session_id == session
        ]

    def text(self, session: str = "a") -> tuple[int, ...]:
        """All tokens committed, which must be contiguous."""
        text: list[int] = []
        for commit in self.commits(session):
            assert commit.base_len == len(TEXT) + len(text)
            assert commit.base_key == key_of((*TEXT, *text))
            text += commit.token_ids
        return tuple(text)

    def refusal(self) -> Refused:
        [refusal] = self.said
        assert isinstance(refusal, Refused)
        return refusal

    def end(self) -> Finished:
        [finished] = [each for each in self.said if isinstance(each, Finished)]
        assert finished is self.said[-1]
        return finished


def _plain(count: int, *, text: Sequence[int] = TEXT, stops: Sequence[int] = ()) -> tuple[int, ...]:
    return MODEL.continue_text(
        tuple(text), max_len=len(text) + count, stop_token_ids=frozenset(stops)
    )


def _chain(depth: int, text: Sequence[int] = TEXT, *, estimate: float = 0.9) -> list[Expansion]:
    prefixes = [(*text, *_plain(index, text=text)) for index in range(depth)]
    return [
        Expansion(key_of(prefix), len(prefix), (MODEL.next_token(prefix),), (estimate,))
        for prefix in prefixes
    ]


# ── opening ───────────────────────────────────────────────────────────────────────────────────────


def test_a_repeated_open_changes_nothing() -> None:
    """A stream may deliver it twice; a refusal would end the session that the first started."""
    bench = Bench()
    bench.open(epoch=1)
    standing = bench.core.sessions[SessionId("a")]
    bench.open(epoch=1)
    assert not bench.said
    assert bench.core.sessions[SessionId("a")] is standing
    assert bench.core.num_stale == 1


@pytest.mark.parametrize(("epoch", "text"), [(0, TEXT), (1, (*TEXT, 1))])
def test_an_epoch_that_is_not_newer_is_refused(epoch: int, text: tuple[int, ...]) -> None:
    bench = Bench()
    bench.open(epoch=1)
    standing = bench.core.sessions[SessionId("a")]
    bench.open(text, epoch=epoch)
    assert bench.refusal().kind == "InvalidRequest"
    assert "not newer" in bench.refusal().message
    assert bench.core.sessions[SessionId("a")] is standing


def test_an_old_epoch_is_refused_after_the_close_too() -> None:
    bench = Bench()
    bench.open(epoch=2)
    bench.take(bench.core.close(Close(SessionId("a"), Epoch(2))))
    bench.open(epoch=2)
    assert bench.refusal().kind == "InvalidRequest"


def test_a_session_that_lives_long_keeps_its_epoch() -> None:
    bench = Bench()
    bench.open(epoch=5)
    for index in range(5000):
        bench.core.open(Open(SessionId(f"s{index}"), Epoch(1), TEXT, 3, 4), owner="c")
        bench.core.close(Close(SessionId(f"s{index}"), Epoch(1)))
    bench.open(epoch=4)
    assert bench.refusal().kind == "InvalidRequest"


def test_a_newer_epoch_replaces_the_session_and_its_kv() -> None:
    bench = Bench()
    bench.open(epoch=1)
    bench.round()
    bench.open((*TEXT, *_plain(1)), epoch=2)
    assert not bench.memory.kv_ids
    bench.run_out()
    assert _plain(57)[1:] == tuple(
        token for each in bench.commits() if each.epoch == 2 for token in each.token_ids
    )


@pytest.mark.parametrize(
    ("text", "max_len", "word"),
    [
        ((), 10, "0 tokens"),
        ((1, 2, 3), 3, "3 tokens"),
        ((1, 2, 3), 65, "limit of 65"),
        (range(12), 11, "12 tokens"),
        ((1, 12), 10, "token id 12"),
        ((-1,), 10, "token id -1"),
    ],
)
def test_a_text_that_cannot_be_served_is_refused(
    text: Sequence[int], max_len: int, word: str
) -> None:
    bench = Bench()
    bench.open(text, max_len=max_len)
    assert bench.refusal().kind == "InvalidRequest"
    assert word in bench.refusal().message
    assert not bench.core.sessions


def test_a_refused_epoch_may_be_tried_again() -> None:
    bench = Bench(replace(LIMITS, kv_slots=75))
    bench.open(session="a")
    bench.open(session="b")
    assert bench.refusal().kind == "NoCapacity"
    bench.take(bench.core.close(Close(SessionId("a"), Epoch(1))))
    bench.open(session="b")
    assert len(bench.said) == 1
    assert SessionId("b") in bench.core.sessions


def test_a_full_verifier_can_move_a_session_to_a_new_epoch() -> None:
    bench = Bench(replace(LIMITS, kv_slots=70))
    bench.open(epoch=1)
    bench.open(epoch=2)
    assert bench.said == []


def test_more_sessions_than_rows_are_refused() -> None:
    """Each has a root in every round, and prefill needs its half of the rows."""
    bench = Bench(replace(LIMITS, max_rows=4))
    for name in ("a", "b", "c"):
        bench.open(session=name, max_len=10)
    assert bench.refusal().kind == "NoCapacity"
    assert bench.refusal().session_id == "c"


def test_no_round_has_more_rows_than_allowed() -> None:
    bench = Bench(replace(LIMITS, max_rows=8))
    bench.attach()
    for index in range(4):
        bench.open(range(8), session=str(index), max_len=20)
    while bench.core.sessions:
        for name, session in bench.core.sessions.items():
            bench.grow_chain(6, text=session.token_ids, session=name)
        assert bench.round().num_rows <= 8


def test_an_unknown_close_is_ignored() -> None:
    bench = Bench()
    bench.take(bench.core.close(Close(SessionId("a"), Epoch(1))))
    assert bench.core.num_stale == 1


def test_a_close_of_an_older_epoch_is_ignored() -> None:
    bench = Bench()
    bench.open(epoch=2)
    bench.take(bench.core.close(Close(SessionId("a"), Epoch(1))))
    assert bench.core.sessions


def test_a_lost_owner_takes_its_sessions_along() -> None:
    bench = Bench()
    bench.open(session="a")
    bench.core.open(Open(SessionId("b"), Epoch(1), TEXT, 3, 10), owner="another")
    bench.take(bench.core.owner_lost("coordinator"))
    assert list(bench.core.sessions) == ["b"]


# ── rounds ────────────────────────────────────────────────────────────────────────────────────────


def test_without_sessions_there_is_nothing_to_wait_for() -> None:
    assert Bench().core.next_action(100.0) == Idle(None)


def test_a_prompt_is_run_in_chunks_before_the_first_token() -> None:
    bench = Bench(replace(LIMITS, max_rows=4))
    bench.open(range(10))
    rows = [[group.token_ids for group in bench.round().groups] for _ in range(3)]
    assert rows == [[(0, 1, 2, 3)], [(4, 5, 6, 7)], [(8, 9)]]
    assert bench.commits()[0].token_ids == _plain(1, text=range(10))


def test_a_root_that_does_not_fit_beside_the_end_of_its_prompt_comes_next() -> None:
    bench = Bench(replace(LIMITS, max_rows=4))
    bench.open(range(9))
    rows = [[group.token_ids for group in bench.round().groups] for _ in range(3)]
    assert rows == [[(0, 1, 2, 3)], [(4, 5, 6, 7)], [(8,)]]


def test_the_end_of_a_prompt_and_its_root_make_the_first_token() -> None:
    bench = Bench()
    bench.attach()
    bench.open(salt="")
    bench.grow_chain(2)  # what is drafted already is not waited for, nor does it do harm
    [group] = bench.round().groups
    assert (group.token_ids, group.wanted) == (TEXT, (2,))
    [commit] = bench.commits()
    assert commit.token_ids == _plain(1)
    assert commit.record is not None
    assert (commit.record.base_len, commit.record.num_batch_rows) == (3, 3)
    bench.open(session="b", salt="")
    assert bench.core.sessions[SessionId("b")].num_cached == len(TEXT) - 1
    bench.run_out()
    assert bench.text() == _plain(57)


def test_the_end_of_a_prompt_that_failed_is_run_again() -> None:
    bench = Bench()
    bench.open()
    bench.take(bench.core.round_failed(bench.start()))
    assert bench.core.sessions[SessionId("a")].kv_len == 0
    bench.run_out()
    assert bench.text() == _plain(57)


def test_prompt_logprobs_are_read_off_a_chunk_of_their_own() -> None:
    bench = Bench()
    opening = Open(
        SessionId("a"), Epoch(1), TEXT, len(TEXT), 10, logprobs=LogprobsWanted(prompt_top=0)
    )
    bench.take(bench.core.open(opening, owner="coordinator"))
    wanted = [bench.round().groups[0].wanted for _ in range(2)]
    assert wanted == [(0, 1), (0,)]


def test_a_prompt_of_one_token_needs_no_prefill() -> None:
    bench = Bench()
    bench.open((7,))
    assert bench.round().groups[0].wanted == (0,)


def test_prefill_rides_along_with_decoding() -> None:
    bench = Bench(replace(LIMITS, max_rows=8))
    bench.open(session="a")
    bench.round()
    bench.open(range(12), session="b")
    done = bench.round()
    assert [share.session.opening.session_id for share in done.shares] == ["a", "b"]
    assert done.num_rows == 8


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("depth", [0, 1, 3, 8, 12])
def test_drafts_change_the_speed_and_not_the_text(mode: Mode, depth: int) -> None:
    bench = Bench()
    bench.attach()
    bench.open(max_len=30, mode=mode)
    while bench.core.sessions:
        text = bench.core.sessions[SessionId("a")].token_ids
        bench.grow_chain(depth, text=text)
        bench.round()
    assert bench.text() == _plain(27)
    most = {Mode.AR: 0, Mode.SHADOW: 0, Mode.SD: LIMITS.sd_depth, Mode.SSD: LIMITS.max_nodes}[mode]
    records = [each.record for each in bench.commits()]
    assert max(each.num_accepted for each in records if each is not None) == min(depth, most)


def test_mode_ar_verifies_nothing_that_a_drafter_sends() -> None:
    bench = Bench()
    bench.attach()
    bench.open(mode=Mode.AR)
    bench.grow_chain(5)
    assert bench.drafted == []
    bench.round()
    assert bench.round().num_rows == 1
    assert bench.core.num_stale == 1


def test_wrong_drafts_are_freed() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    wrong = [each for each in range(VOCAB_SIZE) if each != _plain(1)[0]][:5]
    bench.grow(Expansion(key_of(TEXT), 3, tuple(wrong), (0.9, 0.5, 0.4, 0.3, 0.2)))
    bench.prefill()
    assert bench.round().num_rows == 6
    record = bench.commits()[0].record
    assert record is not None
    assert (record.num_proposed, record.num_tested, record.num_accepted) == (5, 1, 0)
    assert bench.core.sessions[SessionId("a")].kv_len == 3


def test_a_sibling_is_accepted() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    right = _plain(1)[0]
    wrong = next(each for each in range(VOCAB_SIZE) if each != right)
    bench.grow(Expansion(key_of(TEXT), 3, (wrong, right), (0.6, 0.3)))
    bench.prefill()
    bench.round()
    assert bench.text() == _plain(2)


def test_a_round_whose_session_left_meanwhile_says_nothing() -> None:
    bench = Bench()
    bench.open()
    bench.prefill()
    done = bench.start()
    bench.memory.forward(done.groups)
    bench.core.close(Close(SessionId("a"), Epoch(1)))
    bench.take(bench.core.round_done(done, [[5]], launch_s=1.0, end_s=2.0))
    assert bench.said == []


def test_a_round_whose_session_was_opened_anew_does_not_touch_it() -> None:
    bench = Bench()
    bench.open(epoch=1)
    bench.prefill()
    done = bench.start()
    bench.core.open(Open(SessionId("a"), Epoch(2), TEXT, 3, 60), owner="coordinator")
    bench.take(bench.core.round_done(done, [[5]], launch_s=1.0, end_s=2.0))
    assert bench.said == []
    assert bench.core.sessions[SessionId("a")].committed_len == 3


@pytest.mark.parametrize("estimate", [float("nan"), float("inf"), -0.1, 1.5])
def test_estimates_that_are_no_probabilities_are_dropped(estimate: float) -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    bench.grow(Expansion(key_of(TEXT), 3, (1,), (estimate,)))
    assert bench.core.num_stale == 1
    bench.prefill()
    assert bench.round().num_rows == 1


@pytest.mark.parametrize("token_id", [-1, VOCAB_SIZE, 10**9])
def test_draft_tokens_outside_the_vocabulary_are_dropped(token_id: int) -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    bench.grow(Expansion(key_of(TEXT), 3, (1, token_id), (0.5, 0.5)))
    assert bench.core.num_stale == 1
    bench.prefill()
    assert bench.round().num_rows == 1


@pytest.mark.parametrize(
    ("session", "epoch", "position"), [("b", 1, 3), ("a", 0, 3), ("a", 2, 3), ("a", 1, 2)]
)
def test_drafts_for_another_session_epoch_or_a_passed_text_are_dropped(
    session: str, epoch: int, position: int
) -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    expansion = Expansion(key_of(TEXT), position, (1,), (0.5,))
    bench.grow(expansion, session=session, epoch=epoch)
    assert bench.core.num_stale == 1
    assert len(bench.core.sessions[SessionId("a")].expansions) == 0


# ── the end of a text ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("stop", "limit", "depth"), list(itertools.product(range(1, 7), range(1, 8), range(6)))
)
def test_the_first_end_in_the_text_wins(stop: int, limit: int, depth: int) -> None:
    """Case A1: stop token at output index `stop`, `limit` tokens allowed, `depth` drafted."""
    text = TEXT
    stops = {_plain(stop)[-1]}
    bench = Bench()
    bench.attach()
    bench.open(text, max_len=len(text) + limit, stops=tuple(stops))
    bench.prefill()
    while bench.core.sessions:
        bench.grow_chain(depth, text=bench.core.sessions[SessionId("a")].token_ids)
        bench.round()
    expected = _plain(limit, stops=tuple(stops))
    is_stopped = expected[-1] in stops
    assert bench.text() == expected
    assert bench.end().reason is (FinishReason.STOP if is_stopped else FinishReason.LENGTH)
    assert bench.end().total_len == len(TEXT) + len(expected)
    assert bench.core.num_reserved_slots == 0
    assert not bench.memory.kv_ids


def test_a_stop_inside_an_accepted_path_ends_the_text_there() -> None:
    """Case A2: nothing after it is in the commit, in its figures, or at the drafter."""
    bench = Bench()
    bench.attach()
    bench.open(stops=_plain(3)[2:])
    bench.grow_chain(6)
    bench.prefill()
    bench.run_out()
    [commit] = bench.commits()
    assert commit.token_ids == _plain(3)
    assert commit.record is not None
    assert (commit.record.num_accepted, commit.record.num_tested) == (3, 3)
    assert commit.record.lookup is Lookup.LAST
    assert _kinds(bench) == [Open, Close]


@pytest.mark.parametrize("depth", range(1, 6))
@pytest.mark.parametrize("excess", [-1, 0, 1, 2])
def test_a_limit_near_the_depth_gives_exactly_that_many_tokens(depth: int, excess: int) -> None:
    """Case A3: max_tokens 1 to depth + 2 with everything accepted."""
    limit = max(depth + excess, 1)
    bench = Bench()
    bench.attach()
    bench.open(max_len=len(TEXT) + limit)
    bench.grow_chain(depth)
    bench.prefill()
    assert bench.round().num_rows <= limit  # a row more could not be accepted
    bench.run_out()
    assert bench.text() == _plain(limit)


def test_a_text_may_fill_the_context_exactly() -> None:
    bench = Bench()
    bench.attach()
    text = tuple(range(10)) * 6
    bench.open(text, max_len=64)
    bench.grow_chain(8, text=text)
    bench.run_out()
    assert bench.end().total_len == 64


# ── drafters ──────────────────────────────────────────────────────────────────────────────────────


def _kinds(bench: Bench) -> list[type]:
    return [type(each.message) for each in bench.drafted if not isinstance(each.message, Rates)]


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
    assert sent.message.token_ids == (*TEXT, *_plain(1))
    assert sent.message.prompt_len == 3


def test_commits_go_to_the_drafters() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    bench.grow(is_exhausted=True)
    bench.prefill()
    bench.round()
    assert _kinds(bench) == [Open, Commit]
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
    bench.grow(*_chain(4)[2:])
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
    assert _kinds(bench) == [Open, Open]
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
    assert _kinds(bench) == [Open, Open]
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
    assert bench.text() == _plain(7)
    records = [each.record for each in bench.commits()]
    assert {each.lookup for each in records if each} == {Lookup.MISS_ABSENT, Lookup.LAST}


def test_a_session_that_one_of_two_drafters_refuses_is_still_closed_on_the_other() -> None:
    bench = Bench()
    bench.attach("one")
    bench.attach("two")
    bench.open()
    _refuse(bench, drafter_id="one")
    bench.take(bench.core.close(Close(SessionId("a"), Epoch(1))))
    assert _kinds(bench)[-1] is Close


def test_rates_are_shared_once_a_second() -> None:
    bench = Bench()
    bench.attach()
    bench.open(session="a", max_len=64)
    while bench.now < 103.0 and bench.core.sessions:
        bench.round()
        bench.now += 0.1
    sent = [each.message for each in bench.drafted if isinstance(each.message, Rates)]
    assert len(sent) in (3, 4)


# ── lookups ───────────────────────────────────────────────────────────────────────────────────────


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
    bench.grow(*_chain(3)[2:], *_chain(1), is_exhausted=True)
    assert _lookup_of_first(bench) is Lookup.HIT


def test_a_bonus_token_that_was_not_listed_is_a_miss_by_key() -> None:
    bench = Bench()
    bench.attach()
    bench.open()
    wrong = next(each for each in range(VOCAB_SIZE) if each != _plain(1)[0])
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


# ── waiting ───────────────────────────────────────────────────────────────────────────────────────


def _prefilled(mode: Mode = Mode.SSD, *, now: float = 100.0, max_len: int = 60) -> Bench:
    """The text is in the KV, and its root is still to run."""
    bench = Bench(now=now)
    bench.attach()
    bench.open(mode=mode, max_len=max_len)
    bench.prefill()
    return bench


def test_mode_ar_never_waits() -> None:
    _prefilled(Mode.AR).start()


def test_a_bare_cursor_is_waited_for() -> None:
    bench = _prefilled()
    action = bench.core.next_action(bench.now)
    assert isinstance(action, Idle)
    assert action.until is not None
    assert action.until > bench.now


def test_a_round_worth_more_than_a_slow_step_promises_is_launched() -> None:
    """By what rounds earned lately, a token in 10 ms, a step of 6 ms would be worth a wait."""
    bench = _prefilled()
    ms = 1_000_000
    spans = [GrowthSpan(step, 3, 6 * step * ms, (6 * step + 4) * ms, 1) for step in (1, 2)]
    grow = Grow(SessionId("a"), Epoch(1), 3, tuple(_chain(3)), spans=tuple(spans))
    bench.take(bench.core.grow(grow, now=bench.now))
    assert bench.start().num_rows == 4


def test_a_drafter_with_nothing_more_is_not_waited_for() -> None:
    bench = _prefilled()
    bench.grow(is_exhausted=True)
    bench.start()


def test_exhaustion_of_a_passed_text_does_not_end_the_waiting() -> None:
    bench = _prefilled()
    bench.grow(base_len=2, is_exhausted=True)
    assert isinstance(bench.core.next_action(bench.now), Idle)


def test_a_queued_prefill_does_not_wait() -> None:
    bench = _prefilled()
    bench.open(session="b")
    bench.start()


def test_a_silent_drafter_costs_one_short_wait_a_round() -> None:
    bench = _prefilled()
    action = bench.core.next_action(bench.now)
    assert isinstance(action, Idle)
    assert action.until is not None
    bench.now = action.until
    bench.start()


@pytest.mark.parametrize("now", [0.0, 100.0])
def test_mode_sd_waits_for_the_whole_chain(now: float) -> None:
    bench = _prefilled(Mode.SD, now=now - ROUND_S)
    assert bench.core.next_action(bench.now) == Idle(bench.now + LIMITS.sd_patience_s)
    bench.now += 0.2
    bench.grow_chain(LIMITS.sd_depth - 1)
    assert isinstance(bench.core.next_action(bench.now), Idle)
    bench.grow_chain(LIMITS.sd_depth)
    assert bench.start().num_rows == LIMITS.sd_depth + 1


@pytest.mark.parametrize("now", [0.0, 100.0])
def test_mode_sd_does_not_wait_for_ever(now: float) -> None:
    bench = _prefilled(Mode.SD, now=now - ROUND_S)
    bench.core.next_action(bench.now)
    bench.now += LIMITS.sd_patience_s + 0.01
    while isinstance(action := bench.core.next_action(bench.now), Idle):
        assert action.until is not None
        assert action.until < now + LIMITS.sd_patience_s + 0.1
        bench.now = action.until


def test_mode_sd_takes_a_shorter_chain_when_no_more_will_come() -> None:
    bench = _prefilled(Mode.SD)
    bench.grow_chain(1)
    bench.grow(is_exhausted=True)
    assert bench.start().num_rows == 2


@pytest.mark.parametrize("room", [1, 2, 3])
def test_mode_sd_does_not_wait_for_tokens_beyond_the_end(room: int) -> None:
    bench = _prefilled(Mode.SD, max_len=len(TEXT) + room)
    bench.grow_chain(room - 1)
    assert bench.start().num_rows == room


def test_dear_rows_make_trees_small() -> None:
    cheap, dear = (
        Bench(cost=CostModel([(1, 0.01), (9, 0.01 + 8 * per_row)])) for per_row in (0.0, 0.008)
    )
    for bench in (cheap, dear):
        bench.attach()
        bench.open()
        bench.grow(*_chain(8, estimate=0.7), is_exhausted=True)
        bench.prefill()
    assert cheap.start().num_rows == 9
    assert dear.start().num_rows == 1


def test_a_cost_model_that_says_nothing_of_one_row_is_no_obstacle() -> None:
    bench = Bench(cost=CostModel([(64, 0.01), (256, 0.1)]))
    bench.open()
    bench.round()


def test_messages_name_their_owner() -> None:
    core = Verifier(LIMITS, FREE_ROWS)
    [output] = core.open(Open(SessionId("a"), Epoch(1), (), 0, 10), owner="me")
    assert isinstance(output, ToCoordinator)
    assert output.owner == "me"


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
    assert _kinds(bench) == [Open]
    _drafter_ledger(bench, ("a", 0), drafter_id="one")
    assert _kinds(bench) == [Open, Open]
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
    assert _kinds(bench) == [Open]


def test_mode_sd_waits_in_vain_once_and_not_in_every_round() -> None:
    """The drafter lost the session, or its message: the next rounds do not wait for it."""
    bench = Bench()
    bench.attach()
    bench.open(mode=Mode.SD)
    bench.round()  # the prefill
    waits = []
    for _ in range(4):
        began = bench.now
        bench.round()
        waits.append(bench.now - began - ROUND_S >= bench.core.limits.sd_patience_s)
    assert waits == [True, False, False, False]
    bench.grow_chain(2, text=(*TEXT, *bench.text()))
    began = bench.now
    bench.round()
    assert bench.now - began > bench.core.limits.sd_patience_s, "it was heard of again"


def test_the_ledger_says_what_is_held_for_each_coordinator() -> None:
    bench = Bench()
    bench.open(max_len=30)
    bench.round()
    bench.round()
    (entry,) = bench.core.ledger("coordinator")
    text = (*TEXT, *bench.text())
    assert entry == LedgerEntry(SessionId("a"), Epoch(1), len(text), key_of(text), len(text) - 1, 2)
    assert bench.core.ledger("somebody else") == ()


def _refusals(bench: Bench) -> list[Refused]:
    return [each for each in bench.said if isinstance(each, Refused)]


def _resume(bench: Bench, have_len: int, *, session: str = "a", epoch: int = 1) -> None:
    order = Resume(SessionId(session), Epoch(epoch), have_len)
    bench.take(bench.core.resume(order, owner="coordinator"))


def test_a_session_whose_coordinator_is_away_stands_still_and_keeps_its_kv() -> None:
    bench = Bench()
    bench.open(max_len=20)
    bench.round()
    bench.round()
    bench.take(bench.core.owner_away("coordinator"))
    assert not bench.core.has_work
    assert bench.core.next_action(bench.now) == Idle(None)
    assert bench.core.num_reserved_slots > 0


def test_a_round_that_runs_when_the_coordinator_leaves_is_said_again_on_resume() -> None:
    bench = Bench()
    bench.open(max_len=20)
    bench.round()
    done = bench.start()
    assert bench.core.owner_away("coordinator") == []
    bench.finish(done)
    bench.said.clear()  # nobody heard it
    _resume(bench, 3)
    bench.run_out()
    assert bench.text() == _plain(17)


@pytest.mark.parametrize(
    ("session", "epoch", "have_len"), [("b", 1, 3), ("a", 2, 3), ("a", 1, 2), ("a", 1, 9)]
)
def test_what_does_not_stand_as_the_books_have_it_is_not_resumed(
    session: str, epoch: int, have_len: int
) -> None:
    bench = Bench()
    bench.open(max_len=20)
    bench.round()
    _resume(bench, have_len, session=session, epoch=epoch)
    assert [each.kind for each in _refusals(bench)] == ["UnknownSession"]


def test_other_coordinators_sessions_go_on() -> None:
    bench = Bench()
    bench.open(max_len=20)
    opening = Open(SessionId("b"), Epoch(1), TEXT, 3, 20)
    bench.take(bench.core.open(opening, owner="another"))
    bench.take(bench.core.owner_away("coordinator"))
    while bench.core.has_work:
        bench.round()
    assert not bench.commits("a")
    assert bench.text("b") == _plain(17)
    bench.take(bench.core.owner_lost("coordinator"))
    assert not bench.core.sessions


def _fail_with(bench: Bench, *poisoned: str) -> None:
    """Run the next round, which fails if one of these sessions is in it."""
    done = bench.start()
    if {share.session.opening.session_id for share in done.shares} & set(poisoned):
        bench.take(bench.core.round_failed(done))
    else:
        bench.finish(done)


def test_a_poisoned_session_is_found_refused_and_costs_the_others_no_token() -> None:
    bench = Bench()
    for name in ("a", "b", "c", "d"):
        bench.open(session=name, max_len=12)
    num_rounds = 0
    while bench.core.has_work:
        _fail_with(bench, "c")
        num_rounds += 1
        assert num_rounds < 40
    assert [(each.session_id, each.kind) for each in _refusals(bench)] == [("c", "Poisoned")]
    for name in ("a", "b", "d"):
        assert bench.text(name) == _plain(9)
    assert bench.core.num_reserved_slots == 0


def test_one_failure_alone_is_forgiven() -> None:
    bench = Bench()
    bench.attach()
    bench.open(max_len=12)
    bench.prefill()
    for _ in range(3):
        bench.grow_chain(3, text=(*TEXT, *bench.text()))
        while isinstance(action := bench.core.next_action(bench.now), Idle):
            assert action.until is not None
            bench.now = action.until
        bench.take(bench.core.round_failed(action))
        bench.round()
    bench.run_out()
    assert bench.text() == _plain(9)


def test_an_engine_that_fails_at_everything_is_broken_and_no_session_is_to_blame() -> None:
    bench = Bench()
    for name in ("a", "b", "c", "d"):
        bench.open(session=name, max_len=12)

    def fail_at_everything() -> None:
        for _ in range(20):
            bench.take(bench.core.round_failed(bench.start()))

    with pytest.raises(EngineBroken, match="3 sessions alone"):
        fail_at_everything()
