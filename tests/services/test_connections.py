"""What probes and clients see of the server itself: health, pings, and patience with slow ones."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from coordinator import generate_call
from ssd.engine.loading import LoadedModel
from ssd.v1 import generation_pb2, generation_pb2_grpc
from ssd.wire.channels import MAX_MESSAGE_BYTES
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table
from tests.services.cluster import Cluster, read_rest, read_some, refusal_of, request_of, until

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE = "ssd.v1.GenerationService"
PROMPT = (1, 2, 3)


async def health(channel: grpc.aio.Channel, service: str) -> int:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    response = await stub.Check(health_pb2.HealthCheckRequest(service=service))
    return int(response.status)


async def test_the_service_is_ready_while_a_verifier_is_attached(
    cluster: Cluster, table_target: LoadedModel
) -> None:
    await cluster.coordinate()
    assert await health(cluster.channel, "") == SERVING
    assert await health(cluster.channel, SERVICE) == NOT_SERVING
    verifier = await cluster.verify(table_target)

    async def is_ready() -> bool:
        return await health(cluster.channel, SERVICE) == SERVING

    async def is_not_ready() -> bool:
        return await health(cluster.channel, SERVICE) == NOT_SERVING

    await until(is_ready)
    await cluster.stop(verifier)
    await until(is_not_ready)
    assert await health(cluster.channel, "") == SERVING


async def test_a_worker_is_healthy_while_it_serves(
    cluster: Cluster, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    for worker in await cluster.pair(table_target, table_draft):
        async with grpc.aio.insecure_channel(worker.address) as channel:
            assert await health(channel, "") == SERVING


async def test_a_client_that_pings_every_second_is_welcome(
    cluster: Cluster, script: ScriptedModel
) -> None:
    """H5: no GOAWAY during a pause of the model longer than several pings."""
    await cluster.coordinate()
    target = load_table(agreeing(script), name="target")
    await cluster.verify(target)
    options = [
        ("grpc.keepalive_time_ms", 1_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    async with grpc.aio.insecure_channel(cluster.address, options=options) as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        target.runner.forward_s = 4.5  # type: ignore[attr-defined]
        call = stub.Generate(request_of(PROMPT, temperature=0.0, max_tokens=3))
        await asyncio.sleep(4.0)
        target.runner.forward_s = 0.0  # type: ignore[attr-defined]
        reply = await read_rest(call)
    assert reply.token_ids == script.continue_text(PROMPT, max_len=6)


async def test_a_client_that_takes_nothing_is_cancelled_and_told_so(
    cluster: Cluster,
    script: ScriptedModel,
    table_target: LoadedModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I3: others are served meanwhile, and what it does not take is not piled up for it; large
    deltas fill the connection's window."""
    num_made = 0

    def large_delta(
        index: int, text: str, token_ids: tuple[int, ...], logprobs: object
    ) -> generation_pb2.GenerateResponse:
        nonlocal num_made
        num_made += 1
        delta = generation_pb2.Delta(text="x" * 500_000, token_ids=token_ids)
        return generation_pb2.GenerateResponse(delta=delta)

    await cluster.coordinate(coordinator={"port": 0, "stalled_client_timeout_s": 0.5})
    await cluster.verify(table_target)
    monkeypatch.setattr(generate_call, "delta_response", large_delta)
    # Else gRPC lets the window grow with the bandwidth it measures, to many deltas.
    window_stays = [("grpc.http2.bdp_probe", 0)]
    async with grpc.aio.insecure_channel(cluster.address, options=window_stays) as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        call = stub.Generate(request_of(PROMPT, temperature=0.0, max_tokens=400, mode="ar"))
        await read_some(call, 1)
        other = await cluster.generate(PROMPT, temperature=0.0, max_tokens=30)
        assert other.token_ids == script.continue_text(PROMPT, max_len=33)

        async def has_no_sessions() -> bool:
            return not (await cluster.status()).sessions

        await until(has_no_sessions)
        await cluster.until_freed()
        code, details = await refusal_of(read_rest(call))
    assert code is grpc.StatusCode.CANCELLED
    assert "took nothing for 0.5 s" in details
    assert num_made < 30 + 10  # the other's, and what the window and the queues hold


async def test_a_message_that_is_too_large_is_refused_and_the_connection_goes_on(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    await cluster.coordinate()
    await cluster.verify(table_target)
    async with grpc.aio.insecure_channel(
        cluster.address, options=[("grpc.max_send_message_length", -1)]
    ) as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        huge = generation_pb2.GenerateRequest(text="a" * (MAX_MESSAGE_BYTES + 1))
        code, details = await refusal_of(read_rest(stub.Generate(huge)))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert str(MAX_MESSAGE_BYTES) in details
        reply = await read_rest(stub.Generate(request_of(PROMPT, temperature=0.0, max_tokens=4)))
    assert reply.token_ids == script.continue_text(PROMPT, max_len=7)


async def test_model_info_is_unavailable_without_a_verifier_and_right_with_one(
    cluster: Cluster, table_target: LoadedModel
) -> None:
    await cluster.coordinate()
    stub = generation_pb2_grpc.GenerationServiceStub(cluster.channel)
    request = generation_pb2.GetModelInfoRequest()
    assert (await refusal_of(stub.GetModelInfo(request)))[0] is grpc.StatusCode.UNAVAILABLE
    await cluster.verify(table_target)
    info = await stub.GetModelInfo(request)
    assert info.model_name == "table-target"
    assert info.fingerprint == str(table_target.fingerprint)
    assert (info.vocab_size, info.context_len) == (12, 512)


@dataclass(slots=True)
class CountingProxy:
    """Passes connections on to a server and remembers which are open."""

    server_port: int
    num_accepted: int = 0
    num_open: int = 0

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_accepted += 1
        self.num_open += 1
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        there = self._pass_on(reader, server_writer)
        back = self._pass_on(server_reader, writer)
        await asyncio.gather(there, back)
        self.num_open -= 1

    @staticmethod
    async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(65_536):
                writer.write(piece)
                await writer.drain()
        writer.close()


async def test_an_old_connection_takes_no_new_calls_and_its_streams_go_on(
    cluster: Cluster, script: ScriptedModel
) -> None:
    """So a client that balances finds new coordinators, and no stream pays for it."""
    await cluster.coordinate(coordinator={"max_connection_age_s": 0.3})
    await cluster.verify(load_table(agreeing(script), forward_s=0.01))
    proxy = CountingProxy(int(cluster.address.rpartition(":")[2]))
    listening = await asyncio.start_server(proxy.carry, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        call = stub.Generate(request_of(PROMPT, temperature=0.0, max_tokens=200, mode="ar"))
        begun = await read_some(call, 1)
        assert proxy.num_accepted == 1
        while proxy.num_accepted < 3:
            await stub.GetModelInfo(generation_pb2.GetModelInfoRequest())
            await asyncio.sleep(0.02)
        assert not call.done()
        assert proxy.num_open >= 2, "the stream keeps its connection, others have a new one"
        rest = await read_rest(call)
    assert (*begun, *rest.token_ids) == script.continue_text(PROMPT, max_len=203)
