"""What the flight recorders of all three services kept of a run plays again, whatever happened."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from ssd.core.books_replay import BooksMeasure, BooksPlayer
from ssd.core.drafter_flight import Followed
from ssd.core.drafter_replay import DraftMeasure, DraftPlayer
from ssd.core.flight_recorder import Segment
from ssd.core.replay import Player, replay
from ssd.core.verifier_replay import VerifierMeasure, VerifierPlayer
from tests.simulation.schedules import MAX_SIZE, play
from tests.simulation.world import World

Record = Sequence[Segment[Any, Any]]
Players = tuple[Callable[[Any], Player[Any, Any]], ...]


def records_of(world: World) -> Iterator[tuple[str, Record, Players]]:
    for drafter in world.drafters.values():
        for key in drafter.core.flights.known_names:
            yield drafter.name, drafter.core.flights.record_of(key), (DraftPlayer, DraftMeasure)
    for verifier in world.verifiers.values():
        for name in verifier.core.flights.known_names:
            record = verifier.core.flights.record_of(name)
            yield verifier.name, record, (VerifierPlayer, VerifierMeasure)
    flights = world.coordinator.flights
    for name in flights.known_names:
        yield "coordinator", flights.record_of(name), (BooksPlayer, BooksMeasure)


def check_records(seeds: range) -> Counter[str]:
    """Replay every record of these runs; how many events of each kind there were."""
    kinds: Counter[str] = Counter()
    for seed in seeds:
        for where, record, players in records_of(play(seed, size=1 + seed % MAX_SIZE)):
            for player in players:
                replayed = replay(record, player)
                assert replayed.difference is None, f"seed {seed}, {where}: {replayed.difference}"
            kinds.update(type(event).__name__ for part in record for event in part.events)
    return kinds


def test_every_record_of_a_run_plays_again() -> None:
    kinds = check_records(range(100))
    assert min(kinds[name] for name in ("Placed", "Booked", "SaidFinished")) > 0
    assert min(kinds[name] for name in ("Stepped", "Expanded", "Followed", "Told")) > 100
    assert min(kinds[name] for name in ("Grown", "Launched", "Drawn", "Settled", "Ended")) > 100


def test_a_changed_record_of_a_drafter_stops_at_the_change() -> None:
    """Must fail: a record that says otherwise than the core is found, and where."""
    record = next(
        found
        for seed in count()
        for where, found, _ in records_of(play(seed, size=3))
        if where == "drafter-0" and any(isinstance(each, Followed) for each in found[0].events)
    )
    events = list(record[0].events)
    index = next(at for at, each in enumerate(events) if isinstance(each, Followed))
    followed = events[index]
    assert isinstance(followed, Followed)
    events[index] = replace(followed, kv_len=followed.kv_len + 1)
    difference = replay([Segment(record[0].checkpoint, events)], DraftPlayer).difference
    assert difference is not None
    assert (difference.event, "after a commit" in difference.what) == (index, True)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_every_record_of_many_runs_plays_again() -> None:
    check_records(range(10_000, 13_000))
