"""A coordinator's books that keep a flight record, and decide nothing otherwise."""

from ssd.core.books_flight import (
    Booked,
    BooksAt,
    CutOff,
    Event,
    FoundComplete,
    Placed,
    SaidFinished,
)
from ssd.core.client_session import FIRST_EPOCH, ClientSession, Reconciled
from ssd.core.errors import ProtocolError
from ssd.core.flight_recorder import FlightRecorder
from ssd.core.ids import Epoch, SessionId
from ssd.core.messages import Commit, Finished, FinishReason, Open

BooksFlights = FlightRecorder[SessionId, BooksAt, Event]


class RecordedBooks(ClientSession):
    """See `ssd.core.flight_recorder`; nothing is kept before `record_in`."""

    _flights: BooksFlights | None = None

    def record_in(self, flights: BooksFlights) -> None:
        """Begin a record, or go on with that of the same session."""
        is_new, self._flights = self._flights is None, flights
        flights.opened(self.admission.session_id, self._as_they_stand(is_new=is_new))

    def open(self, *, above: Epoch = FIRST_EPOCH) -> Open:
        opening = super().open(above=above)
        self._note(Placed(above, opening.epoch, self.committed_len))
        return opening

    def commit(self, message: Commit) -> Reconciled:
        said = (message.epoch, message.base_len, message.base_key, message.token_ids)
        try:
            reconciled = super().commit(message)
        except ProtocolError:
            self._note(Booked(*said, None, self.committed_len))
            raise
        self._note(Booked(*said, reconciled, self.committed_len))
        return reconciled

    def finish(self, message: Finished) -> Reconciled:
        reconciled = super().finish(message)
        said = (message.epoch, message.total_len, message.reason)
        self._note(SaidFinished(*said, reconciled))
        return reconciled

    def end_output(self, num_tokens: int) -> None:
        super().end_output(num_tokens)
        self._note(CutOff(num_tokens))

    def settle_locally(self) -> FinishReason | None:
        reason = super().settle_locally()
        if reason is not None:
            self._note(FoundComplete(reason))
        return reason

    def _note(self, event: Event) -> None:
        session_id = self.admission.session_id
        if self._flights is not None and self._flights.note(session_id, event):
            self._flights.checkpoint(session_id, self._as_they_stand())

    def _as_they_stand(self, *, is_new: bool = False) -> BooksAt:
        return BooksAt(
            self.admission.prompt_token_ids,
            self.output_token_ids,
            self.admission.stop_token_ids,
            self.admission.max_len,
            self.epoch,
            self.finish_reason,
            is_new,
        )
