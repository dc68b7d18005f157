"""Whatever is delayed, dropped, doubled, reordered, cancelled or crashed: the text is right."""

import time
from collections.abc import Sequence
from itertools import count

import pytest

from ssd.core import verifier_session
from ssd.core.tree import Outcome, TokenTree
from tests.simulation.schedules import failure_of, play, play_all, shortest

MIN_SCHEDULES = 3000
TIME_BOX_S = 40.0


@pytest.mark.timeout(400)
def test_random_schedules_serve_plain_decoding() -> None:
    until_s = time.monotonic() + TIME_BOX_S
    played = play_all(count(), until_s=until_s, at_least=MIN_SCHEDULES)
    assert played >= MIN_SCHEDULES


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_twenty_thousand_other_schedules_serve_plain_decoding() -> None:
    assert play_all(count(1_000_000), at_least=20_000) == 20_000


@pytest.mark.parametrize("seed", [3, 17, 42])
def test_a_seed_replays_a_run_exactly(seed: int) -> None:
    first, second = (play(seed, size=5) for _ in range(2))
    assert first.log == second.log
    assert first.loop.now == second.loop.now


def _believe(tree: TokenTree, target_token_ids: Sequence[int]) -> Outcome:
    """A walk that believes the first draft instead of the target."""
    path = (1,) if tree.num_nodes > 1 else ()
    return Outcome(path, target_token_ids[path[-1] if path else 0])


def test_a_broken_core_is_found_and_its_schedule_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Must fail."""
    monkeypatch.setattr(verifier_session, "walk", _believe)
    with pytest.raises(AssertionError, match=r"(?s)seed .* says .*replay with play\(.*Commit"):
        play_all(count(), at_least=100)


def test_a_failing_schedule_is_cut_down_and_still_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session or two, no fault and a short text are enough to show this bug."""
    monkeypatch.setattr(verifier_session, "walk", _believe)
    first = next(
        found for seed in count(4, step=5) if (found := failure_of(seed, 5)) and found.weight[0] > 2
    )
    small = shortest(first)
    num_sessions, num_faults, num_drafters, _, num_events = small.weight
    assert num_sessions <= 2
    assert num_faults == 0
    assert num_drafters <= 1  # a session may draft for itself
    assert num_events < first.weight[-1]
    again = failure_of(small.seed, small.size, small.cut)
    assert again is not None
    assert again.world.log == small.world.log
