"""Plays a flight record on the pure core again, up to the first difference.

What came from outside (messages, what a model said, what was chosen over all sessions) is taken
from the record; what the core made of it is computed anew and compared. Where nothing differs, the
core as it is now explains what happened; where something does, it is the bug, or was mended since.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ssd.core.flight_recorder import Ended, Segment

Checkpoint = TypeVar("Checkpoint")
Event = TypeVar("Event")
CheckpointIn = TypeVar("CheckpointIn", contravariant=True)
EventIn = TypeVar("EventIn", contravariant=True)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the core and the record part: the segment, the event in it, and what differs."""

    segment: int
    event: int
    what: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """How far a replay came; without a difference, all the way."""

    num_events: int
    num_tokens: int
    difference: Difference | None


class Mismatch(Exception):
    """Recorded and computed values differ."""


class Player(Protocol[CheckpointIn, EventIn]):
    """One session, brought to where a checkpoint says and driven by events from there."""

    def play(self, event: EventIn) -> int:
        """Apply one event; how many tokens it committed. Raises Mismatch."""
        ...

    def meet(self, checkpoint: CheckpointIn) -> None:
        """The next segment goes on from here, unless it is of a new opening. Raises Mismatch."""
        ...


def replay(
    record: Sequence[Segment[Checkpoint, Event]],
    player_at: Callable[[Checkpoint], Player[Checkpoint, Event]],
) -> Replayed:
    """Play segments one after the other, each from its own checkpoint."""
    num_events = num_tokens = 0
    for index, segment in enumerate(record):
        at = num_events
        try:
            player = player_at(segment.checkpoint)
            for event in segment.events:
                num_tokens += 0 if isinstance(event, Ended) else player.play(event)
                num_events += 1
            if index + 1 < len(record):
                player.meet(record[index + 1].checkpoint)
        # Whatever the core raises over a record is what the replay is there to find.
        except Exception as error:
            kind = "" if isinstance(error, Mismatch) else f"{type(error).__name__}: "
            difference = Difference(index, num_events - at, f"{kind}{error}")
            return Replayed(num_events, num_tokens, difference)
    return Replayed(num_events, num_tokens, None)


def expect(what: str, recorded: object, computed: object) -> None:
    """Raises Mismatch."""
    if recorded != computed:
        raise Mismatch(f"{what}: recorded {recorded}, computed {computed}")
