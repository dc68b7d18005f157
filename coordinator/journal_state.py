"""What the records of a journal add up to: the sessions that somebody may still ask for."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from coordinator.journal_records import (
    Admitted,
    Committed,
    Ended,
    Forgotten,
    Opened,
    Record,
)
from ssd.core.client_session import FIRST_EPOCH
from ssd.core.ids import Epoch, SessionId
from ssd.core.logprobs import LogprobsWanted
from ssd.core.recorded_books import RecordedBooks


@dataclass(slots=True)
class JournalledSession:
    """One session as the records tell it."""

    admitted: Admitted
    epoch: Epoch = FIRST_EPOCH
    instance_id: str = ""
    output_token_ids: list[int] = field(default_factory=list)
    ended: Ended | None = None

    def books(self) -> RecordedBooks:
        """The coordinator's books as they stood."""
        admission = self.admitted.admission
        if admission.logprobs != LogprobsWanted():
            # They are not written down, so they are computed again, with the same text.
            return RecordedBooks.restored(
                admission, epoch=self.epoch, output_token_ids=(), finish_reason=None
            )
        return RecordedBooks.restored(
            admission,
            epoch=self.epoch,
            output_token_ids=self.output_token_ids,
            finish_reason=self.ended.reason if self.ended is not None else None,
        )

    def records(self) -> Iterator[Record]:
        """The fewest records that tell the same."""
        session_id = self.admitted.session_id
        yield self.admitted
        if self.epoch:
            yield Opened(session_id, self.epoch, self.instance_id)
        if self.output_token_ids:
            yield Committed(session_id, 0, tuple(self.output_token_ids))
        if self.ended is not None:
            yield self.ended


class JournalState:
    """Applies records in order; one of a session that is not known (its beginning was in a damaged
    tail, or it is forgotten) changes nothing."""

    def __init__(self) -> None:
        self.sessions: dict[SessionId, JournalledSession] = {}

    def apply(self, record: Record) -> None:
        if isinstance(record, Admitted):
            self.sessions[record.session_id] = JournalledSession(record)
            return
        session = self.sessions.get(record.session_id)
        if session is None:
            return
        match record:
            case Opened():
                session.epoch, session.instance_id = record.epoch, record.instance_id
            case Committed():
                if record.base <= len(session.output_token_ids):
                    session.output_token_ids[record.base :] = record.token_ids
            case Ended():
                session.ended = record
            case Forgotten():
                del self.sessions[record.session_id]

    def records(self) -> Iterator[Record]:
        for session in self.sessions.values():
            yield from session.records()
