"""The drafter: what it runs, what it sends, and what it ignores."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ssd.core.draft_step import Candidates, Step
from ssd.core.drafter import Drafter
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.drafter_outputs import CopyDraftKv, DraftOver, Output, ReleaseDraftKv, ToVerifier
from ssd.core.edge_rates import NUM_CELLS
from ssd.core.growth import GrowthLimits, chain_limits
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.messages import Close, Commit, Grow, Need, Open, Rates, Refused
from ssd.core.mode import Mode
from tests.models.scripted_model import ScriptedModel
from tests.models.slot_memory import SlotMemory

PEER = "verifier"
TEXT = (3, 1, 4)
MODEL = ScriptedModel(seed=5)
SD_DEPTH = 4
LIMITS = DrafterLimits(
    context_len=64,
    kv_slots=1000,
    kv_block=1,
    growth=GrowthLimits(
        num_candidates=2, frontier=4, max_depth=4, min_reach=1e-6, max_nodes=20, push_reach=1.0
    ),
    chain=chain_limits(SD_DEPTH),
)


def _keys(grow: Grow) -> list[int]:
    return [each.key for each in grow.expansions]


class Bench:
    """A drafter with a model under it: steps run at once, messages collect."""

    def __init__(self, limits: DrafterLimits = LIMITS) -> None:
        self.core = Drafter(limits)
        self.memory = SlotMemory()
        self.sent: list[Grow | Need | Refused] = []

    def open(
        self,
        text: Sequence[int] = TEXT,
        *,
        session: str = "a",
        epoch: int = 1,
        max_len: int = 60,
        mode: Mode = Mode.SSD,
        salt: str | None = None,
    ) -> None:
        opening = Open(
            SessionId(session),
            Epoch(epoch),
            tuple(text),
            len(text),
            max_len,
            mode=mode,
            cache_salt=salt,
        )
        self.take(self.core.open(opening, peer=PEER))

    def commit(
        self, text: Sequence[int], *token_ids: int, session: str = "a", epoch: int = 1
    ) -> None:
        self.take(
            self.core.commit(
                Commit(SessionId(session), Epoch(epoch), len(text), key_of(text), token_ids),
                peer=PEER,
            )
        )

    def close(self, *, session: str = "a", epoch: int = 1) -> None:
        self.take(self.core.close(Close(SessionId(session), Epoch(epoch)), peer=PEER))

    def take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, ToVerifier):
                assert output.peer == PEER
                self.sent.append(output.message)
            elif isinstance(output, ReleaseDraftKv):
                self.memory.release(output.kv_id)
            elif isinstance(output, CopyDraftKv):
                self.memory.copy(output.source, output.target, output.num_slots)
        self.core.check()

    def start(self) -> Step | None:
        """The first half of a step; the forward runs."""
        step = self.core.next_step()
        self.core.check()
        return step

    def finish(self, step: Step) -> None:
        self.take(self.core.step_done(step, self.answers(step), start_s=1.0, end_s=1.5))

    def answers(self, step: Step) -> list[Candidates]:
        seen = self.memory.forward(step.groups)
        return [MODEL.ranked(prefix, 2) for prefixes in seen for prefix in prefixes]

    def step(self) -> Step | None:
        step = self.start()
        if step is not None:
            self.finish(step)
        return step

    def grow_all(self) -> int:
        """Step until nothing is worth growing; how many steps that took."""
        for number in range(1000):
            if self.step() is None:
                return number
        raise AssertionError("the drafter never rests")

    def grown(self) -> list[Grow]:
        return [message for message in self.sent if isinstance(message, Grow)]

    def positions(self) -> list[list[int]]:
        """Positions of the expansions, message by message."""
        return [[each.position for each in grow.expansions] for grow in self.grown()]


def _chain(depth: int, text: Sequence[int] = TEXT) -> tuple[int, ...]:
    return MODEL.continue_text(tuple(text), max_len=len(text) + depth)


def _rows(step: Step | None) -> list[tuple[int, ...]]:
    assert step is not None
    return [group.token_ids for group in step.groups]


# ── opening and prefill ───────────────────────────────────────────────────────────────────────────


def test_a_drafter_without_sessions_rests() -> None:
    assert Bench().step() is None


def test_the_first_step_runs_the_text_and_expands_its_last_token() -> None:
    bench = Bench()
    bench.open()
    step = bench.step()
    assert _rows(step) == [TEXT]
    [grow] = bench.grown()
    assert [each.key for each in grow.expansions] == [key_of(TEXT)]
    assert grow.expansions[0].token_ids == MODEL.ranked(TEXT, 2)[0]
    assert grow.expansions[0].position == 3
    assert (grow.base_len, grow.is_exhausted) == (3, False)
    assert [span.num_rows for span in grow.spans] == [3]


def test_a_long_text_is_run_in_chunks() -> None:
    bench = Bench(replace(LIMITS, max_rows=4))
    bench.open(range(10))
    assert _rows(bench.step()) == [(0, 1, 2, 3)]
    assert _rows(bench.step()) == [(4, 5, 6, 7)]
    assert _rows(bench.step()) == [(8, 9)]
    assert bench.grown()[0].expansions[0].token_ids == MODEL.ranked(tuple(range(10)), 2)[0]


def test_a_long_text_does_not_cost_another_session_its_frontier() -> None:
    bench = Bench(replace(LIMITS, max_rows=4))
    bench.open(range(10), session="long")
    bench.open((7,), session="short")
    bench.grow_all()
    assert {key_of(range(10)), key_of((7,))} <= {
        each.key for grow in bench.grown() for each in grow.expansions
    }


def test_a_text_without_tokens_is_refused() -> None:
    bench = Bench()
    bench.open(())
    [refusal] = bench.sent
    assert isinstance(refusal, Refused)
    assert refusal.kind == "InvalidRequest"
    assert not bench.core.sessions


def test_a_session_without_room_is_refused() -> None:
    bench = Bench(replace(LIMITS, kv_slots=100))
    bench.open(session="a")
    bench.open(session="b")
    [refusal] = bench.sent
    assert isinstance(refusal, Refused)
    assert (refusal.session_id, refusal.kind) == ("b", "NoCapacity")


def test_room_comes_back_with_a_close() -> None:
    bench = Bench(replace(LIMITS, kv_slots=100))
    bench.open(session="a")
    bench.step()
    bench.close(session="a")
    assert not bench.memory.kv_ids
    bench.open(session="b")
    assert not any(isinstance(each, Refused) for each in bench.sent)


def test_an_opening_of_an_older_epoch_changes_nothing() -> None:
    bench = Bench()
    bench.open((*TEXT, 5), epoch=2)
    bench.open(TEXT, epoch=1)
    assert _rows(bench.step()) == [(*TEXT, 5)]
    assert bench.core.num_stale == 1


def test_an_opening_of_the_same_epoch_starts_anew() -> None:
    bench = Bench()
    bench.open(TEXT)
    bench.grow_all()
    bench.open((*TEXT, 5, 6))
    assert _rows(bench.step()) == [(*TEXT, 5, 6)]


def test_a_close_of_an_older_epoch_changes_nothing() -> None:
    bench = Bench()
    bench.open(epoch=2)
    bench.close(epoch=1)
    assert bench.core.sessions
    assert bench.core.num_stale == 1


def test_two_verifiers_may_use_one_session_id() -> None:
    core = Drafter(LIMITS)
    opening = Open(SessionId("a"), Epoch(1), TEXT, 3, 60, cache_salt=None)
    core.open(opening, peer="one")
    core.open(opening, peer="two")
    step = core.next_step()
    assert step is not None
    assert len({group.kv_id for group in step.groups}) == 2
    kv_id = step.groups[0].kv_id
    assert core.peer_lost("one") == [DraftOver(kv_id), ReleaseDraftKv(kv_id)]
    assert [key[0] for key in core.sessions] == ["two"]


# ── growth ────────────────────────────────────────────────────────────────────────────────────────


def test_growth_ends_by_itself() -> None:
    bench = Bench()
    bench.open()
    assert 0 < bench.grow_all() < 50


def test_an_urgent_frontier_is_narrow_and_then_wide() -> None:
    bench = Bench()
    bench.open(TEXT[:1])
    widths = [len(_rows(bench.step())[0]) for _ in range(5)]
    assert widths[:2] == [1, 2]
    assert max(widths) == LIMITS.growth.frontier


def test_growth_stays_within_depth_and_nodes() -> None:
    bench = Bench()
    bench.open()
    bench.grow_all()
    positions = [each for message in bench.positions() for each in message]
    assert max(positions) <= len(TEXT) + LIMITS.growth.max_depth - 1
    assert len(positions) <= LIMITS.growth.max_nodes


def test_what_the_text_surely_passes_is_sent_at_once_and_the_unlikely_together() -> None:
    bench = Bench(replace(LIMITS, growth=replace(LIMITS.growth, push_reach=0.9)))
    bench.open()
    bench.grow_all()
    sizes = [len(message) for message in bench.positions()]
    assert sizes[0] == 1  # the cursor's
    assert max(sizes[1:]) > LIMITS.growth.frontier
    assert sum(sizes) == len({key for grow in bench.grown() for key in _keys(grow)})


def test_every_expansion_is_sent_once() -> None:
    bench = Bench()
    bench.open()
    bench.grow_all()
    keys = [each.key for grow in bench.grown() for each in grow.expansions]
    assert len(set(keys)) == len(keys) > 10
    assert bench.grown()[-1].is_exhausted


def test_every_step_has_its_span() -> None:
    bench = Bench()
    bench.open()
    num_steps = bench.grow_all()
    spans = [span for grow in bench.grown() for span in grow.spans]
    assert [span.step for span in spans] == list(range(1, num_steps + 1))
    assert {(span.start_ns, span.end_ns) for span in spans} == {(10**9, 1_500_000_000)}


def test_sessions_share_a_step() -> None:
    bench = Bench()
    for name in ("a", "b", "c"):
        bench.open(session=name)
    assert len(_rows(bench.step())) == 3


def test_every_waiting_session_gets_a_row_of_a_narrow_step() -> None:
    bench = Bench()
    for index in range(6):
        bench.open((index,), session=str(index))
    assert _rows(bench.step()) == [(index,) for index in range(6)]


def test_a_session_that_has_nothing_more_does_not_narrow_the_others() -> None:
    bench = Bench(replace(LIMITS, context_len=10))
    bench.open(range(12), session="too long")
    bench.open((7,), session="b")
    widths = [len(_rows(bench.step())[0]) for _ in range(5)]
    assert max(widths) == LIMITS.growth.frontier


# ── commits ───────────────────────────────────────────────────────────────────────────────────────


def test_a_commit_on_the_tree_runs_nothing_twice() -> None:
    bench = Bench()
    bench.open()
    bench.grow_all()
    before = bench.memory.num_rows
    bench.commit(TEXT, *_chain(1))
    step = bench.step()
    assert step is not None
    assert all(position > len(TEXT) for group in step.groups for position in group.positions)
    assert bench.memory.num_rows > before


def test_a_commit_off_the_tree_runs_the_new_token() -> None:
    bench = Bench()
    bench.open()
    bench.grow_all()
    missing = next(each for each in range(12) if each not in MODEL.ranked(TEXT, 2)[0])
    bench.commit(TEXT, missing)
    assert _rows(bench.step()) == [(missing,)]


def test_full_acceptance_runs_the_token_that_was_never_run() -> None:
    """The bonus token after a whole accepted path, and the leaf before it."""
    bench = Bench(replace(LIMITS, growth=replace(LIMITS.growth, max_depth=1, num_candidates=1)))
    bench.open()
    bench.grow_all()
    accepted = _chain(2)
    bench.commit(TEXT, *accepted)
    assert _rows(bench.step()) == [accepted]


def test_a_repeated_commit_is_ignored() -> None:
    bench = Bench()
    bench.open()
    bench.commit(TEXT, 5, 6)
    bench.commit(TEXT, 5, 6)
    assert bench.core.num_stale == 1
    assert bench.sent == []
    assert _rows(bench.step()) == [(*TEXT, 5, 6)]


def test_an_overlapping_commit_adds_what_is_new() -> None:
    bench = Bench()
    bench.open()
    bench.commit(TEXT, 5)
    bench.commit(TEXT, 5, 6)
    assert _rows(bench.step()) == [(*TEXT, 5, 6)]


def test_a_gap_asks_for_the_rest_and_pauses_the_session() -> None:
    bench = Bench()
    bench.open()
    bench.commit((*TEXT, 5), 6)
    assert bench.sent == [Need(SessionId("a"), Epoch(1), 3)]
    assert bench.step() is None
    bench.commit(TEXT, 5)
    assert len(bench.sent) == 1


def test_an_opening_ends_the_pause() -> None:
    bench = Bench()
    bench.open()
    bench.commit((*TEXT, 5), 6)
    bench.open((*TEXT, 5, 6))
    assert _rows(bench.step()) == [(*TEXT, 5, 6)]


def test_a_commit_to_another_text_asks_for_all_of_it() -> None:
    bench = Bench()
    bench.open()
    bench.take(
        bench.core.commit(Commit(SessionId("a"), Epoch(1), 3, key_of((3, 1, 5)), (6,)), peer=PEER)
    )
    assert bench.sent == [Need(SessionId("a"), Epoch(1), 0)]


@pytest.mark.parametrize(("session", "epoch"), [("a", 0), ("a", 2), ("b", 1)])
def test_a_commit_of_another_epoch_or_session_is_stale(session: str, epoch: int) -> None:
    bench = Bench()
    bench.open()
    bench.commit(TEXT, 5, session=session, epoch=epoch)
    assert bench.core.num_stale == 1
    assert _rows(bench.step()) == [TEXT]


def test_what_was_collected_is_sent_when_the_text_moves() -> None:
    """The verifier plans its next tree right after the commit; what comes later is of no use."""
    bench = Bench(replace(LIMITS, growth=replace(LIMITS.growth, push_reach=100.0)))
    bench.open()
    for _ in range(3):
        bench.step()
    assert bench.positions() == []
    bench.commit(TEXT, *_chain(1))
    sent = bench.grown()[-1]
    assert key_of((*TEXT, *_chain(1))) in {each.key for each in sent.expansions}
    assert sent.base_len == 4


def test_what_the_text_has_passed_is_not_sent() -> None:
    bench = Bench(replace(LIMITS, growth=replace(LIMITS.growth, push_reach=100.0)))
    bench.open()
    for _ in range(4):
        bench.step()
    bench.commit(TEXT, *_chain(2))
    assert all(each.position >= 5 for grow in bench.grown() for each in grow.expansions)


# ── forwards under way ────────────────────────────────────────────────────────────────────────────


def test_a_commit_while_its_token_runs_is_not_the_end_of_growth() -> None:
    limits = replace(LIMITS.growth, num_candidates=1, max_depth=2)
    bench = Bench(replace(LIMITS, growth=limits))
    bench.open()
    bench.step()
    step = bench.start()
    assert step is not None
    bench.commit(TEXT, *_chain(1))
    assert not any(grow.is_exhausted for grow in bench.grown())
    bench.finish(step)
    assert bench.grown()[-1].expansions[0].key == key_of((*TEXT, *_chain(1)))


@pytest.mark.parametrize("event", ["close", "reopen", "lose"])
def test_the_answer_to_a_session_that_left_meanwhile_is_dropped(event: str) -> None:
    bench = Bench()
    bench.open()
    bench.open((7,), session="b")
    step = bench.start()
    assert step is not None
    answers = bench.answers(step)
    if event == "close":
        bench.close()
    elif event == "reopen":
        bench.open(epoch=2)
    else:
        bench.take(bench.core.peer_lost(PEER))
    bench.take(bench.core.step_done(step, answers, start_s=0.0, end_s=1.0))
    assert [grow.session_id for grow in bench.grown()] == ([] if event == "lose" else ["b"])


# ── limits ────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_longer_than_the_context_is_never_run() -> None:
    bench = Bench(replace(LIMITS, context_len=10))
    bench.open(range(11))
    assert bench.step() is None
    [grow] = bench.grown()
    assert (grow.base_len, grow.expansions, grow.is_exhausted) == (11, (), True)


def test_each_commit_beyond_the_context_is_answered_once() -> None:
    bench = Bench(replace(LIMITS, context_len=10))
    bench.open(range(11))
    bench.commit(range(11), 5)
    bench.commit(range(11), 5)
    assert [grow.base_len for grow in bench.grown()] == [11, 12]
    assert bench.step() is None


def test_no_row_is_beyond_the_context() -> None:
    bench = Bench(replace(LIMITS, context_len=6))
    bench.open()
    text: tuple[int, ...] = TEXT
    for _ in range(6):
        while (step := bench.step()) is not None:
            assert max(max(group.positions) for group in step.groups) < 6
        bench.commit(text, *_chain(1, text))
        text += _chain(1, text)


@pytest.mark.parametrize("room", range(1, 8))
def test_nothing_is_grown_that_could_not_be_accepted(room: int) -> None:
    """The last token of a text is always a bonus token."""
    bench = Bench()
    bench.open(max_len=len(TEXT) + room)
    bench.grow_all()
    positions = [each for message in bench.positions() for each in message]
    assert max(positions, default=0) <= len(TEXT) + room - 2
    assert bool(positions) == (room > 1)
    assert bench.grown()[-1].is_exhausted


def test_exhaustion_is_told_once_per_text() -> None:
    bench = Bench()
    bench.open()
    for length in range(3):
        bench.grow_all()
        bench.grow_all()
        text = (*TEXT, *_chain(length))
        assert [grow.base_len for grow in bench.grown() if grow.is_exhausted].count(len(text)) == 1
        bench.commit(text, *_chain(1, text))


@pytest.mark.parametrize("tests", [(), (1.0,) * (NUM_CELLS - 1), (float("nan"),) * NUM_CELLS])
def test_rates_that_make_no_sense_are_dropped(tests: tuple[float, ...]) -> None:
    core = Drafter(LIMITS)
    before = core.rates
    core.rates_updated(Rates(tests, tests))
    assert core.rates is before
    assert core.num_stale == 1


def test_rates_rank_what_comes_after() -> None:
    bench = Bench(replace(LIMITS, growth=replace(LIMITS.growth, min_reach=0.05)))
    bench.core.rates_updated(Rates((1000.0,) * NUM_CELLS, (10.0,) * NUM_CELLS))
    bench.open()
    assert bench.grow_all() == 1  # all candidates have a reach of about 0.01


# ── mode sd ───────────────────────────────────────────────────────────────────────────────────────


def test_mode_sd_sends_one_message_with_the_whole_chain() -> None:
    bench = Bench()
    bench.open(mode=Mode.SD)
    text: tuple[int, ...] = TEXT
    for _ in range(4):
        assert bench.grow_all() == SD_DEPTH
        grow = bench.grown()[-1]
        assert [each.token_ids[0] for each in grow.expansions] == list(_chain(SD_DEPTH, text))
        assert {len(each.token_ids) for each in grow.expansions} == {1}
        assert (grow.base_len, grow.is_exhausted) == (len(text), True)
        bench.commit(text, *_chain(SD_DEPTH + 1, text))
        text += _chain(SD_DEPTH + 1, text)
    assert len(bench.grown()) == 4


@pytest.mark.parametrize("room", range(1, SD_DEPTH + 2))
def test_a_chain_near_the_end_is_shorter(room: int) -> None:
    bench = Bench()
    bench.open(mode=Mode.SD, max_len=len(TEXT) + room)
    bench.grow_all()
    [grow] = bench.grown()
    assert len(grow.expansions) == min(room - 1, SD_DEPTH)
    assert grow.is_exhausted


def test_a_poisoned_session_is_found_and_refused_and_the_others_are_drafted_for() -> None:
    bench = Bench()
    names = ("a", "b", "c", "d")
    for name in names:
        bench.open(session=name)
    for _ in range(2000):
        step = bench.start()
        if step is None:
            break
        num_sent = len(bench.sent)
        if any(share.session.opening.session_id == "c" for share in step.shares):
            bench.take(bench.core.step_failed(step))
        else:
            bench.finish(step)
        for message in bench.sent[num_sent:]:
            if isinstance(message, Need):
                bench.open(session=message.session_id)
    refused = [each for each in bench.sent if isinstance(each, Refused)]
    assert [(each.session_id, each.kind) for each in refused] == [("c", "Poisoned")]
    assert {each.session_id for each in bench.grown() if each.expansions} == {"a", "b", "d"}
    assert {each.opening.session_id for each in bench.core.sessions.values()} == {"a", "b", "d"}
