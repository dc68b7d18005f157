"""The flight records of this coordinator's books; see `ssd.core.flight_recorder`."""

from pathlib import Path

import structlog

from ssd.core.flight_recorder import FlightRecorder
from ssd.core.ids import SessionId
from ssd.core.recorded_books import BooksFlights, RecordedBooks
from ssd.core.session_names import is_of_request
from ssd.wire.flight_file import COORDINATOR, pack, write_records

log = structlog.get_logger()


class FlightRecords:
    """What happened to each session in the books; left in `folder` when something broke."""

    def __init__(self, folder: Path | None = None, *, with_tokens: bool = False) -> None:
        self._flights: BooksFlights = FlightRecorder()
        self._folder = folder
        self._with_tokens = with_tokens

    def begin(self, books: RecordedBooks) -> None:
        """Record what happens to a session from now on."""
        books.record_in(self._flights)

    def ended(self, session_id: SessionId) -> None:
        self._flights.ended(session_id)

    def of_request(self, request_id: str, *, has_owner: bool, with_tokens: bool) -> list[bytes]:
        """The records of a request's answers, each as the content of a file."""
        return [
            pack(
                name,
                self._flights.record_of(name),
                reason="asked",
                with_tokens=with_tokens,
                role=COORDINATOR,
            )
            for name in self._flights.known_names
            if is_of_request(name, request_id, has_owner=has_owner)
        ]

    def leave(self, session_id: SessionId, reason: str) -> None:
        """Something broke: write the session's record where it can be found."""
        if self._folder is None:
            return
        record = (session_id, self._flights.record_of(session_id))
        try:
            written = write_records(
                self._folder,
                [record],
                reason=reason,
                with_tokens=self._with_tokens,
                role=COORDINATOR,
            )
            log.error("flight record", reason=reason, files=[str(each) for each in written])
        except OSError as error:
            log.error("no flight record", reason=reason, failure=str(error))
