"""A flight record plays again to the same end, and a changed one stops where it was changed."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ssd.core.expansion import Expansion
from ssd.core.flight_recorder import NUM_EVENTS, Segment
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.messages import Grow, Open
from ssd.core.price import CostModel
from ssd.core.recorded_verifier import RecordedVerifier
from ssd.core.replay import Replayed, replay
from ssd.core.verifier_flight import Checkpoint, Drawn, Event, Failed, Grown, Launched, Settled
from ssd.core.verifier_limits import VerifierLimits
from ssd.core.verifier_replay import VerifierMeasure, VerifierPlayer
from ssd.core.verifier_round import Round
from tests.models.scripted_model import ScriptedModel
from tests.models.slot_memory import SlotMemory

MODEL = ScriptedModel(vocab_size=12, seed=7)
PROMPT = (3, 1, 4, 1, 5)
SESSION = SessionId("a")


def replayed_whole(record: Sequence[Segment[Checkpoint, Event]]) -> Replayed:
    return replay(record, VerifierPlayer)


def replayed_by_length(record: Sequence[Segment[Checkpoint, Event]]) -> Replayed:
    return replay(record, VerifierMeasure)


def flown(num_tokens: int, *, draft_every: int = 3, fail_every: int = 0) -> RecordedVerifier:
    """A verifier that wrote a text of so many tokens, with drafts for some of its rounds."""
    core = RecordedVerifier(VerifierLimits(12, 2000, 5000), CostModel([(1, 0.01), (9, 0.011)]))
    memory = SlotMemory()
    core.drafter_attached("d")
    core.open(Open(SESSION, Epoch(1), PROMPT, 5, 5 + num_tokens), owner="me")
    now = 0.0
    while core.sessions:
        session = core.sessions[SESSION]
        if core.num_rounds % draft_every:
            text = tuple(session.token_ids)
            core.grow(Grow(SESSION, Epoch(1), len(text), chain(text, 3)), now=now)
        now += 0.01
        action = core.next_action(now)
        if not isinstance(action, Round):
            continue
        if fail_every and action.round_id % fail_every == 0:
            core.round_failed(action)
            continue
        seen = memory.forward(action.groups)
        answers = [[MODEL.next_token(prefix) for prefix in prefixes] for prefixes in seen]
        core.round_done(action, answers, launch_s=now, end_s=now + 0.01)
        now += 0.01
    return core


def chain(text: tuple[int, ...], depth: int) -> tuple[Expansion, ...]:
    found = []
    for _ in range(depth):
        token_ids, estimates = MODEL.ranked(text, 3)
        found.append(Expansion(key_of(text), len(text), token_ids, estimates))
        text = (*text, token_ids[0])
    return tuple(found)


def test_a_record_plays_again_to_the_same_end() -> None:
    record = flown(60).flights.record_of(SESSION)
    replayed = replayed_whole(record)
    assert replayed.difference is None
    assert replayed.num_tokens == 60
    assert replayed.num_events == sum(len(each.events) for each in record)


def test_a_long_record_forgets_its_beginning_and_still_plays() -> None:
    record = flown(1500).flights.record_of(SESSION)
    num_events = sum(len(each.events) for each in record)
    assert NUM_EVENTS <= num_events < 2 * NUM_EVENTS
    assert record[0].checkpoint.kv_len > 100
    replayed = replayed_whole(record)
    assert replayed.difference is None
    assert replayed.num_events == num_events


def _another_draw(event: object) -> object:
    assert isinstance(event, Drawn)
    return replace(
        event, target_token_ids=tuple((each + 1) % 12 for each in event.target_token_ids)
    )


def _shorter_kv(event: object) -> object:
    assert isinstance(event, Settled)
    return replace(event, kv_len=event.kv_len - 1)


def _other_tree(event: object) -> object:
    assert isinstance(event, Launched)
    return replace(event, token_ids=(*event.token_ids, 11), parents=(*event.parents, 0))


@pytest.mark.parametrize(
    ("kind", "change", "what"),
    [
        (Drawn, _another_draw, "what came of the round"),
        (Settled, _shorter_kv, "what came of the round"),
        (Launched, _other_tree, "never drafted"),
    ],
)
def test_a_changed_record_stops_at_the_change(
    kind: type, change: Callable[[object], object], what: str
) -> None:
    [segment, *_] = flown(30).flights.record_of(SESSION)
    events: list[object] = list(segment.events)
    index = [at for at, each in enumerate(events) if isinstance(each, kind)][4]
    events[index] = change(events[index])
    replayed = replayed_whole([Segment(segment.checkpoint, events)])  # type: ignore[arg-type]
    assert replayed.difference is not None
    assert index <= replayed.difference.event <= index + 1
    assert what in replayed.difference.what


def test_an_invariant_that_breaks_in_the_replay_is_the_difference() -> None:
    [segment, *_] = flown(30).flights.record_of(SESSION)
    doubled = [
        each
        for event in segment.events
        for each in ([event] * (2 if isinstance(event, Drawn) else 1))
    ]
    difference = replayed_whole([Segment(segment.checkpoint, doubled)]).difference
    assert difference is not None
    assert "never launched" in difference.what


def test_only_sessions_that_grew_have_expansions_in_their_record() -> None:
    events: Sequence[object] = flown(20, draft_every=1).flights.record_of(SESSION)[0].events
    assert not any(isinstance(each, Grown) for each in events)


def test_lengths_alone_are_checked_too() -> None:
    record = flown(60).flights.record_of(SESSION)
    assert replayed_by_length(record) == replayed_whole(record)
    [segment, *_] = record
    events = [_shorter_kv(each) if isinstance(each, Settled) else each for each in segment.events]
    difference = replayed_by_length([Segment(segment.checkpoint, events)]).difference  # type: ignore[arg-type]
    assert difference is not None
    assert "the KV rows" in difference.what


def test_rounds_that_failed_replay_as_never_run() -> None:
    record = flown(60, fail_every=5).flights.record_of(SESSION)
    assert any(isinstance(event, Failed) for event in record[0].events)
    assert replayed_whole(record).difference is None
    assert replayed_by_length(record) == replayed_whole(record)
