"""What the journal is told about live sessions, and what follows when it cannot be told."""

import time

import structlog

from coordinator.journal import Journal
from coordinator.journal_records import Ended, Forgotten, Record
from coordinator.live_session import LiveSession
from ssd.core.errors import Unavailable
from ssd.core.ids import SessionId

log = structlog.get_logger()


class SessionNotes:
    """Writes records of live sessions."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def write(self, live: LiveSession, record: Record) -> bool:
        """Write down what is about to happen; a session for which that fails goes no further."""
        try:
            self._journal.write(record)
        except Unavailable as error:
            log.error("session failed", session_id=record.session_id, reason=str(error))
            live.fail(error)
            return False
        return True

    def end(self, live: LiveSession) -> None:
        """Write down that a session ended, if it did, once."""
        reason = live.books.finish_reason
        if reason is not None and not live.is_end_noted:
            live.is_end_noted = True
            self.write(live, Ended(live.session_id, reason, time.time()))

    def forget(self, session_id: SessionId) -> None:
        try:
            self._journal.write(Forgotten(session_id))
        except Unavailable as error:  # it goes with its age
            log.error("session not forgotten", session_id=session_id, reason=str(error))
