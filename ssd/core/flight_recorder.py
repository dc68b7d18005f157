"""What happened to each session lately, kept so that it can be played again.

A record is a row of segments. Each begins with a checkpoint, the session as it stood, and goes on
with what was done to it; so the record can always be replayed from its beginning
(`ssd.core.replay`), although what lies before the last events is forgotten. Events hold the values
that the core handles anyway: writing one costs an append.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ssd.core.expansion import Expansion
from ssd.core.ids import SessionId
from ssd.core.messages import FinishReason, Open

NUM_EVENTS = 512
"""A record holds at least so many of a session's last events, and a segment more at most."""
_SEGMENT = 128
_ENDED_KEPT = 32


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A session between two events; `opening` holds its committed text as it stood."""

    opening: Open
    kv_len: int = 0
    expansions: tuple[Expansion, ...] = ()


@dataclass(frozen=True, slots=True)
class Grown:
    """A drafter's expansions came in."""

    expansions: tuple[Expansion, ...]


@dataclass(frozen=True, slots=True)
class Launched:
    """Rows of the session went into a round: a prefill chunk, or a tree (`parents` not empty)."""

    round_id: int
    token_ids: tuple[int, ...]
    parents: tuple[int, ...] = ()

    @property
    def is_prefill(self) -> bool:
        return not self.parents


@dataclass(frozen=True, slots=True)
class Drawn:
    """The rows ran: the target's token after each node of the tree, nothing after a prefill."""

    round_id: int
    target_token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The round's forward raised an error; its rows count as never run."""

    round_id: int


@dataclass(frozen=True, slots=True)
class Settled:
    """What the verification brought, and how the session stood after it."""

    emitted: tuple[int, ...]
    finish_reason: FinishReason | None
    committed_len: int
    kv_len: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The session was closed, replaced, finished or lost with its owner."""


Event = Grown | Launched | Drawn | Failed | Settled | Ended


@dataclass(slots=True)
class Segment:
    """A stretch of a session's life."""

    checkpoint: Checkpoint
    events: list[Event] = field(default_factory=list)


class FlightRecorder:
    """The records of the sessions that run, and of the last that ended."""

    def __init__(self) -> None:
        self._running: dict[SessionId, deque[Segment]] = {}
        self._ended: OrderedDict[SessionId, deque[Segment]] = OrderedDict()

    def opened(self, checkpoint: Checkpoint) -> None:
        """A session starts; one of the same id goes on in the same record."""
        session_id = checkpoint.opening.session_id
        record = self._running.get(session_id) or self._ended.pop(session_id, None) or deque()
        self._running[session_id] = record
        self._begin(record, checkpoint)

    def note(self, session_id: SessionId, event: Event) -> bool:
        """Append an event; True asks for a checkpoint, to be given to `checkpoint` soon."""
        record = self._running.get(session_id)
        if record is None:
            return False
        events = record[-1].events
        events.append(event)
        return len(events) >= _SEGMENT

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """How the session stands now, between two rounds."""
        self._begin(self._running[checkpoint.opening.session_id], checkpoint)

    def ended(self, session_id: SessionId) -> None:
        """The session is over; its record is kept for a while."""
        record = self._running.pop(session_id, None)
        if record is None:
            return
        record[-1].events.append(Ended())
        self._ended[session_id] = record
        while len(self._ended) > _ENDED_KEPT:
            self._ended.popitem(last=False)

    def record_of(self, session_id: SessionId) -> Sequence[Segment]:
        """A session's segments, oldest first; none of an unknown session."""
        record = self._running.get(session_id) or self._ended.get(session_id) or ()
        return tuple(Segment(each.checkpoint, list(each.events)) for each in record)

    @property
    def running_ids(self) -> tuple[SessionId, ...]:
        return tuple(self._running)

    @property
    def known_ids(self) -> tuple[SessionId, ...]:
        """Sessions with a record, the newest last."""
        return (*self._ended, *self._running)

    @staticmethod
    def _begin(record: deque[Segment], checkpoint: Checkpoint) -> None:
        record.append(Segment(checkpoint))
        num_events = sum(len(each.events) for each in record)
        while num_events - len(record[0].events) >= NUM_EVENTS:
            num_events -= len(record.popleft().events)
