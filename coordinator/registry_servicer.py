"""`RegistryService`: decode, call, encode."""

from typing import Any

from coordinator.registry import LEASE_S, Registry
from coordinator.session_table import SessionTable
from ssd.core.errors import SsdError
from ssd.v1 import registry_pb2, registry_pb2_grpc
from ssd.wire.status import status_code


class RegistryServicer(registry_pb2_grpc.RegistryServiceServicer):
    """Where workers register and operators look."""

    def __init__(self, registry: Registry, table: SessionTable) -> None:
        self._registry = registry
        self._table = table

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
            )
            for session_id, live in self._table.sessions.items()
        ]
        return registry_pb2.GetStatusResponse(
            workers=self._registry.statuses(),
            sessions=sessions,
            metrics_address=self._registry.metrics_address,
        )
