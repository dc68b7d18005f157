"""A worker tells the coordinators that it exists, and says so again before each lease ends."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import grpc
import grpc.aio

from ssd.v1 import registry_pb2, registry_pb2_grpc
from ssd.wire.channels import open_channel
from ssd.wire.security import CLEAR, Security

_RETRY_S = 0.5
_CALL_TIMEOUT_S = 2.0


async def keep_registered(
    worker: registry_pb2.Worker,
    coordinators: Sequence[str],
    *,
    report: Callable[[str, str], None],
    security: Security = CLEAR,
) -> None:
    """Register with every coordinator until cancelled; `report(address, words)` at each change."""
    async with asyncio.TaskGroup() as tasks:
        for address in coordinators:
            tasks.create_task(_keep_registered(worker, address, report, security))


async def _keep_registered(
    worker: registry_pb2.Worker,
    address: str,
    report: Callable[[str, str], None],
    security: Security,
) -> None:
    said = ""
    async with open_channel(address, security) as channel:
        stub = registry_pb2_grpc.RegistryServiceStub(channel)
        request = registry_pb2.RegisterRequest(worker=worker)
        while True:
            try:
                response = await stub.Register(request, timeout=_CALL_TIMEOUT_S)
                words, pause_s = "registered", response.lease_s / 3
            except grpc.aio.AioRpcError as error:
                words, pause_s = f"{error.code().name}: {error.details()}", _RETRY_S
            if words != said:
                report(address, words)
                said = words
            await asyncio.sleep(pause_s)


async def announce_leave(
    worker: registry_pb2.Worker, coordinators: Sequence[str], security: Security = CLEAR
) -> None:
    """Say that the worker is about to stop; a coordinator that does not answer finds out."""
    leaving = registry_pb2.Worker()
    leaving.CopyFrom(worker)
    leaving.is_leaving = True
    request = registry_pb2.RegisterRequest(worker=leaving)
    await asyncio.gather(*(_say(request, address, security) for address in coordinators))


async def _say(request: registry_pb2.RegisterRequest, address: str, security: Security) -> None:
    async with open_channel(address, security) as channel:
        stub = registry_pb2_grpc.RegistryServiceStub(channel)
        with contextlib.suppress(grpc.aio.AioRpcError):
            await stub.Register(request, timeout=_CALL_TIMEOUT_S)
