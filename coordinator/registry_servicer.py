"""`RegistryService`: decode, call, encode."""

import time
from typing import Any

import grpc

from coordinator.registry import LEASE_S, Registry
from coordinator.session_table import SessionTable
from ssd.core.errors import SsdError
from ssd.v1 import registry_pb2, registry_pb2_grpc
from ssd.wire.status import status_code


class RegistryServicer(registry_pb2_grpc.RegistryServiceServicer):
    """Where workers register and operators look."""

    def __init__(self, registry: Registry, table: SessionTable, *, has_owners: bool) -> None:
        """`has_owners`: requests are named by their key's owner too."""
        self._registry = registry
        self._table = table
        self._has_owners = has_owners

    async def Register(  # noqa: N802 (the name is the protocol's)
        self, request: registry_pb2.RegisterRequest, context: Any
    ) -> registry_pb2.RegisterResponse:
        try:
            await self._registry.register(request.worker)
        except SsdError as error:
            await context.abort(status_code(error), str(error))
        return registry_pb2.RegisterResponse(lease_s=LEASE_S)

    async def GetStatus(  # noqa: N802 (the name is the protocol's)
        self, request: registry_pb2.GetStatusRequest, context: Any
    ) -> registry_pb2.GetStatusResponse:
        sessions = [
            registry_pb2.SessionStatus(
                session_id=session_id,
                epoch=live.books.epoch,
                verifier=live.seat.name if live.seat is not None else "",
                prompt_len=live.books.prompt_len,
                committed_len=live.books.committed_len,
                held_epoch=live.held.epoch if live.held is not None else 0,
                held_key=live.held.key if live.held is not None else 0,
                kv_len=live.held.kv_len if live.held is not None else 0,
                last_round=live.held.last_round if live.held is not None else 0,
            )
            for session_id, live in self._table.sessions.items()
        ]
        return registry_pb2.GetStatusResponse(
            workers=self._registry.statuses(),
            sessions=sessions,
            metrics_address=self._registry.metrics_address,
            unix_ns=time.time_ns(),
            moves=[
                registry_pb2.MoveCount(reason=reason.value, count=count)
                for reason, count in self._table.seating.moves.items()
            ],
        )

    async def Drain(  # noqa: N802 (the name is the protocol's)
        self, request: registry_pb2.DrainRequest, context: Any
    ) -> registry_pb2.DrainResponse:
        try:
            num_staying = self._registry.drain(request.name, undo=request.undo)
        except SsdError as error:
            await context.abort(status_code(error), str(error))
        return registry_pb2.DrainResponse(num_staying=num_staying)

    async def DumpSession(  # noqa: N802 (the name is the protocol's)
        self, request: registry_pb2.DumpSessionRequest, context: Any
    ) -> registry_pb2.DumpSessionResponse:
        asked = {"with_tokens": request.with_tokens, "has_owner": self._has_owners}
        records = [
            *self._table.flights.of_request(request.session_id, **asked),
            *await self._registry.records_of(request.session_id, **asked),
        ]
        if not records:
            words = f"nobody keeps a record of session {request.session_id}"
            await context.abort(grpc.StatusCode.NOT_FOUND, words)
        return registry_pb2.DumpSessionResponse(records=records)
