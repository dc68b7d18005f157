"""N-gram drafts inside the verifier, and drafters that are paused, beside sessions that are not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ssd.core.drafter_kind import DrafterKind, DrafterState
from ssd.core.expansion import Expansion
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.ledger import Ledger, LedgerEntry
from ssd.core.messages import Close, Commit, Grow, Open
from ssd.core.mode import Mode
from ssd.core.ngram_limits import NgramForm, NgramLimits
from ssd.core.price import CostModel
from ssd.core.recorded_verifier import RecordedVerifier
from ssd.core.replay import replay
from ssd.core.rounds import Lookup, RoundRecord, WhyPlain, figures_of
from ssd.core.rule import Rule
from ssd.core.sampling_params import SamplingParams
from ssd.core.speculation_control import ControlLimits
from ssd.core.speculation_limits import SpeculationLimits
from ssd.core.verifier_limits import VerifierLimits
from ssd.core.verifier_outputs import Output, ToCoordinator, ToDrafter
from ssd.core.verifier_replay import VerifierPlayer
from ssd.core.verifier_round import Round
from tests.models.slot_memory import SlotMemory

SOURCE = tuple(range(100, 160))
NGRAM = NgramLimits(max_nodes=8)
LIMITS = VerifierLimits(vocab_size=2000, context_len=4000, kv_slots=20_000, ngram=NGRAM)
ROW = CostModel([(1, 0.01), (9, 0.0116)])


def copy(prefix: tuple[int, ...]) -> int:
    """A target that says its source again and again."""
    return SOURCE[(SOURCE.index(prefix[-1]) + 1) % len(SOURCE)] if prefix[-1] in SOURCE else 100


def novel(prefix: tuple[int, ...]) -> int:
    """A target that never says the same twice."""
    return 200 + (len(prefix) * 7919 + prefix[-1]) % 1801 % 1800


class Stage:
    """A verifier with one drafter, whose chance of being right is set by hand."""

    def __init__(
        self, target: Callable[[tuple[int, ...]], int], limits: VerifierLimits = LIMITS
    ) -> None:
        self.core = RecordedVerifier(limits, ROW)
        self.target = target
        self.memory = SlotMemory()
        self.now = 0.0
        self.records: dict[SessionId, list[RoundRecord]] = {}
        self.orders: list[ToDrafter] = []
        self.is_right: dict[SessionId, bool] = {}

    def open(self, name: str, prompt: tuple[int, ...] = SOURCE, **fields: Any) -> SessionId:
        session_id = SessionId(name)
        opening = Open(session_id, Epoch(1), prompt, len(prompt), len(prompt) + 3000)
        self.records[session_id] = []
        self.take(self.core.open(replace(opening, **fields), owner="me"))
        return session_id

    def play(self, num_rounds: int) -> None:
        goal = self.core.num_rounds + num_rounds
        while self.core.num_rounds < goal:
            self._draft()
            action = self.core.next_action(self.now)
            if not isinstance(action, Round):
                assert action.until is not None
                self.now = action.until
                continue
            seen = self.memory.forward(action.groups)
            answers = [[self.target(prefix) for prefix in prefixes] for prefixes in seen]
            launch_s, self.now = self.now, self.now + 0.01
            self.take(self.core.round_done(action, answers, launch_s=launch_s, end_s=self.now))

    def take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, ToDrafter):
                self.orders.append(output)
            elif isinstance(output, ToCoordinator) and isinstance(output.message, Commit):
                assert output.message.record is not None
                self.records[output.message.session_id].append(output.message.record)
        self.core.check()

    def _draft(self) -> None:
        """A chain below the text of each session that a drafter holds, in time for the round."""
        for session_id, session in self.core.sessions.items():
            if not session.drafters or session.is_prefilling:
                continue
            text, found = tuple(session.token_ids), []
            for _ in range(4):
                token_id = self.target(text) if self.is_right[session_id] else 1
                found.append(Expansion(key_of(text), len(text), (token_id,), (0.8,)))
                text = (*text, token_id)
            grow = Grow(session_id, Epoch(1), session.committed_len, tuple(found), True)
            self.take(self.core.grow(grow, now=self.now))


def tokens_per_round(records: list[RoundRecord]) -> float:
    return sum(each.num_accepted + 1 for each in records) / len(records)


@pytest.mark.parametrize("form", NgramForm)
def test_a_copied_text_is_drafted_without_any_drafter(form: NgramForm) -> None:
    stage = Stage(copy, replace(LIMITS, ngram=replace(NGRAM, form=form)))
    session_id = stage.open("a")
    stage.play(40)
    records = stage.records[session_id]
    assert not stage.orders
    assert tokens_per_round(records) > 6.0
    assert [each.lookup for each in records[2:]] == [Lookup.HIT] * (len(records) - 2)
    (part,) = records[-1].drafters
    assert (part.kind, part.num_accepted) == (DrafterKind.NGRAM, records[-1].num_accepted)
    assert records[-1].verified_steps == ()


def test_what_a_session_drafts_itself_is_in_its_record() -> None:
    stage = Stage(copy)
    session_id = stage.open("a")
    stage.play(60)
    assert replay(stage.core.flights.record_of(session_id), VerifierPlayer).difference is None


def test_a_long_prompt_is_remembered_round_by_round() -> None:
    stage = Stage(copy, replace(LIMITS, max_rows=64))
    session_id = stage.open("a", SOURCE * 15)
    stage.play(60)
    assert tokens_per_round(stage.records[session_id]) > 6.0


@pytest.mark.parametrize(
    ("fields", "is_drafted"),
    [
        ({"mode": Mode.AR}, False),
        ({"mode": Mode.SD}, True),
        ({"speculation": SpeculationLimits(drafters=frozenset({DrafterKind.MODEL}))}, False),
        ({"params": SamplingParams(rule=Rule.RATIO)}, False),
        (
            {
                "params": SamplingParams(rule=Rule.RATIO),
                "speculation": SpeculationLimits(drafters=frozenset({DrafterKind.NGRAM})),
            },
            True,
        ),
    ],
)
def test_who_drafts_is_up_to_the_request(fields: dict[str, Any], is_drafted: bool) -> None:
    stage = Stage(copy)
    session_id = stage.open("a", **fields)
    stage.play(10)
    assert (sum(each.num_accepted for each in stage.records[session_id]) > 0) == is_drafted


def test_a_drafter_of_a_kind_that_the_request_does_not_allow_never_hears_of_it() -> None:
    stage = Stage(novel)
    stage.take(stage.core.drafter_attached("d", DrafterKind.MODEL))
    only = SpeculationLimits(drafters=frozenset({DrafterKind.NGRAM}))
    session_id = stage.open("a", speculation=only)
    stage.play(5)
    stage.take(stage.core.close(Close(session_id, Epoch(1))))
    assert not [each for each in stage.orders if isinstance(each.message, Open | Commit | Close)]


def opened(stage: Stage, session_id: SessionId) -> int:
    return sum(
        isinstance(each.message, Open) and each.message.session_id == session_id
        for each in stage.orders
    )


def test_an_adversary_is_paused_for_its_session_alone_and_comes_back_when_it_is_good() -> None:
    stage = Stage(novel, replace(LIMITS, ngram=None))
    stage.take(stage.core.drafter_attached("d"))
    bad, good = stage.open("bad"), stage.open("good")
    stage.is_right |= {bad: False, good: True}
    stage.play(33)
    assert stage.core.sessions[bad].control.is_paused(DrafterKind.MODEL)
    assert not stage.core.sessions[bad].drafters
    assert ToDrafter(Close(bad, Epoch(1)), "d") in stage.orders
    stage.play(200)
    assert stage.records[bad][-1].why_plain in (WhyPlain.PAUSED, WhyPlain.TOO_DEAR)
    assert 3 <= opened(stage, bad) <= 5, "probed, and not often"
    assert opened(stage, good) == 1
    assert {part.state for each in stage.records[good] for part in each.drafters} == {
        DrafterState.ACTIVE
    }
    assert tokens_per_round(stage.records[good][-100:]) > 4.0
    before = opened(stage, bad)
    stage.is_right[bad] = True
    while stage.core.sessions[bad].control.states[DrafterKind.MODEL] is not DrafterState.ACTIVE:
        stage.play(1)
        assert opened(stage, bad) - before <= 5
    stage.play(60)
    assert tokens_per_round(stage.records[bad][-40:]) > 4.0
    figures = figures_of(stage.records[bad], (), num_tokens=1).drafters[DrafterKind.MODEL]
    assert figures.num_probes == opened(stage, bad) - 1
    assert not figures.is_paused
    assert "paused for" in figures.why


def test_a_drafter_that_missed_its_pause_is_told_again() -> None:
    stage = Stage(novel, replace(LIMITS, ngram=None))
    stage.take(stage.core.drafter_attached("d"))
    session_id = stage.open("a")
    stage.is_right[session_id] = False
    stage.play(33)
    stage.orders.clear()
    entry = LedgerEntry(session_id, Epoch(1), 60, key_of(SOURCE), 59, 1)
    stage.take(stage.core.drafter_ledger(Ledger(1, (entry,)), drafter_id="d"))
    assert stage.orders == [ToDrafter(Close(session_id, Epoch(1)), "d")]


def test_control_can_be_switched_off() -> None:
    limits = replace(LIMITS, ngram=None, control=ControlLimits(is_on=False))
    stage = Stage(novel, limits)
    stage.take(stage.core.drafter_attached("d"))
    session_id = stage.open("a")
    stage.is_right[session_id] = False
    stage.play(100)
    assert stage.core.sessions[session_id].drafters
    assert opened(stage, session_id) == 1
