"""The flight records of a request: this coordinator's books, and what the workers keep of it."""

from collections.abc import Iterable
from typing import Any

import grpc.aio

from ssd.core.flight_recorder import FlightRecorder
from ssd.core.ids import SessionId
from ssd.core.recorded_books import BooksFlights, RecordedBooks
from ssd.core.session_names import is_of_request
from ssd.v1 import drafter_pb2, drafter_pb2_grpc, registry_pb2, verifier_pb2, verifier_pb2_grpc
from ssd.wire.channels import open_channel
from ssd.wire.flight_file import COORDINATOR, FlightStore, pack
from ssd.wire.security import Security

_TIMEOUT_S = 5.0


class BooksRecords:
    """What happened to each session in the books; left in `store` when something broke."""

    def __init__(self, store: FlightStore | None = None) -> None:
        self._flights: BooksFlights = FlightRecorder()
        self._store = store

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
        if self._store is not None:
            self._store.leave([(session_id, self._flights.record_of(session_id))], reason)


async def ask_worker(
    worker: registry_pb2.Worker,
    security: Security,
    request_id: str,
    *,
    has_owner: bool,
    with_tokens: bool,
) -> Iterable[bytes]:
    """The records that one worker keeps of a request; none if it does not answer."""
    asked: dict[str, Any] = {
        "session_id": request_id,
        "with_tokens": with_tokens,
        "has_owners": has_owner,
    }
    async with open_channel(worker.address, security) as channel:
        try:
            if worker.role == registry_pb2.ROLE_VERIFIER:
                verifier = verifier_pb2_grpc.VerifierServiceStub(channel)
                to_verifier = verifier_pb2.GetFlightRecordsRequest(**asked)
                return (await verifier.GetFlightRecords(to_verifier, timeout=_TIMEOUT_S)).records
            drafter = drafter_pb2_grpc.DrafterServiceStub(channel)
            to_drafter = drafter_pb2.GetDraftRecordsRequest(**asked)
            return (await drafter.GetDraftRecords(to_drafter, timeout=_TIMEOUT_S)).records
        except grpc.aio.AioRpcError:
            return ()
