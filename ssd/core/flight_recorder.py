"""What happened to each session lately, kept so that it can be played again.

A record is a row of segments. Each begins with a checkpoint, the session as it stood, and goes on
with what was done to it; so the record can always be replayed from its beginning
(`ssd.core.replay`), although what lies before the last events is forgotten. Events hold the values
that the core handles anyway: writing one costs an append.

Each of the three services records what its own core sees: `verifier_flight`, `drafter_flight` and
`books_flight` say what.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

NUM_EVENTS = 512
"""A record holds at least so many of a session's last events, and a segment more at most."""
_SEGMENT = 128
_ENDED_KEPT = 32

Name = TypeVar("Name", bound=Hashable)
Checkpoint = TypeVar("Checkpoint")
Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class Ended:
    """The session was closed, replaced, finished or lost with its owner."""


@dataclass(slots=True)
class Segment(Generic[Checkpoint, Event]):
    """A stretch of a session's life."""

    checkpoint: Checkpoint
    events: list[Event | Ended] = field(default_factory=list)


class FlightRecorder(Generic[Name, Checkpoint, Event]):
    """The records of the sessions that run, and of the last that ended."""

    def __init__(self) -> None:
        self._running: dict[Name, deque[Segment[Checkpoint, Event]]] = {}
        self._ended: OrderedDict[Name, deque[Segment[Checkpoint, Event]]] = OrderedDict()

    def opened(self, name: Name, checkpoint: Checkpoint) -> None:
        """A session starts; one of the same name goes on in the same record."""
        record = self._running.get(name) or self._ended.pop(name, None) or deque()
        self._running[name] = record
        self._begin(record, checkpoint)

    def note(self, name: Name, event: Event) -> bool:
        """Append an event; True asks for a checkpoint, to be given to `checkpoint` soon."""
        record = self._running.get(name)
        if record is None:
            return False
        events = record[-1].events
        events.append(event)
        return len(events) >= _SEGMENT

    def checkpoint(self, name: Name, checkpoint: Checkpoint) -> None:
        """How the session stands now, between two pieces of work."""
        self._begin(self._running[name], checkpoint)

    def ended(self, name: Name) -> None:
        """The session is over; its record is kept for a while."""
        record = self._running.pop(name, None)
        if record is None:
            return
        record[-1].events.append(Ended())
        self._ended[name] = record
        while len(self._ended) > _ENDED_KEPT:
            self._ended.popitem(last=False)

    def record_of(self, name: Name) -> Sequence[Segment[Checkpoint, Event]]:
        """A session's segments, oldest first; none of an unknown session."""
        record = self._running.get(name) or self._ended.get(name) or ()
        return tuple(Segment(each.checkpoint, list(each.events)) for each in record)

    @property
    def running_names(self) -> tuple[Name, ...]:
        return tuple(self._running)

    @property
    def known_names(self) -> tuple[Name, ...]:
        """Sessions with a record, the newest last."""
        return (*self._ended, *self._running)

    @staticmethod
    def _begin(record: deque[Segment[Checkpoint, Event]], checkpoint: Checkpoint) -> None:
        record.append(Segment(checkpoint))
        num_events = sum(len(each.events) for each in record)
        while num_events - len(record[0].events) >= NUM_EVENTS:
            num_events -= len(record.popleft().events)
