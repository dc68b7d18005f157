"""A worker tells the coordinators that it exists, and says so again before each lease ends."""

import asyncio
from collections.abc import Callable, Sequence

import grpc
import grpc.aio

from ssd.v1 import registry_pb2, registry_pb2_grpc
from ssd.wire.channels import open_channel

_RETRY_S = 0.5
_CALL_TIMEOUT_S = 2.0


async def keep_registered(
    worker: registry_pb2.Worker,
    coordinators: Sequence[str],
    *,
    report: Callable[[str, str], None],
) -> None:
    """Register with every coordinator until cancelled; `report(address, words)` at each change."""
    async with asyncio.TaskGroup() as tasks:
        for address in coordinators:
            tasks.create_task(_keep_registered(worker, address, report))


async def _keep_registered(
    worker: registry_pb2.Worker, address: str, report: Callable[[str, str], None]
) -> None:
    said = ""
    async with open_channel(address) as channel:
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
