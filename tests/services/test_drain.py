"""A worker that takes leave loses nobody's token."""

import asyncio

import grpc
import pytest

from ssd.client import Client
from ssd.core.errors import UnknownSession
from ssd.engine.loading import LoadedModel
from ssd.v1 import registry_pb2, registry_pb2_grpc
from tests.models.scripted_model import ScriptedModel
from tests.services.cluster import Cluster, read_rest, read_some, refusal_of, until
from tests.services.test_several_coordinators import slow_target

PROMPT = (1, 2, 3)


async def drain(cluster: Cluster, worker: str, *, undo: bool = False) -> int:
    def ask() -> int:
        with Client(cluster.address) as client:
            return client.drain(worker, undo=undo)

    return await asyncio.to_thread(ask)


async def test_a_drained_verifiers_sessions_go_on_at_another(
    cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel
) -> None:
    first, _ = await cluster.pair(slow_target(script), table_draft)
    call = cluster.call(PROMPT, temperature=0.0, max_tokens=300)
    begun = await read_some(call, 10)
    assert await drain(cluster, "verifier-0") == 1, "there is no other"
    code, _ = await refusal_of(cluster.generate(PROMPT, max_tokens=4))
    assert code is grpc.StatusCode.UNAVAILABLE
    second = await cluster.verify(slow_target(script), name="verifier-1")
    assert await drain(cluster, "verifier-0") == 0
    assert (await cluster.worker_status("verifier-0")).reason == "draining"
    rest = await read_rest(call)
    assert (*begun, *rest.token_ids) == script.continue_text(PROMPT, max_len=303)
    assert second.verifier.num_rounds > 0
    assert {each.reason: each.count for each in (await cluster.status()).moves}["drain"] == 1
    await drain(cluster, "verifier-1")
    await drain(cluster, "verifier-0", undo=True)
    before = first.verifier.num_rounds
    await cluster.generate(PROMPT, temperature=0.0, max_tokens=4)
    assert first.verifier.num_rounds > before
    await cluster.until_freed()


async def test_a_drained_drafter_is_let_go(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    verifier, _ = await cluster.pair(table_target, table_draft)
    assert await drain(cluster, "drafter-0") == 0

    async def is_let_go() -> bool:
        return not verifier.verifier.drafters

    await until(is_let_go)
    reply = await cluster.generate(PROMPT, temperature=0.0, max_tokens=20)
    assert reply.token_ids == script.continue_text(PROMPT, max_len=23)


async def test_nobody_drains_a_worker_that_is_not_there(cluster: Cluster) -> None:
    await cluster.coordinate()
    with pytest.raises(UnknownSession, match="no worker verifier-7 is registered here, only: none"):
        await drain(cluster, "verifier-7")


async def test_a_verifier_told_to_stop_gives_its_sessions_away_first(
    cluster: Cluster, script: ScriptedModel
) -> None:
    await cluster.coordinate(timeouts={"drain_s": 20.0, "resume_s": 30.0})
    first = await cluster.verify(slow_target(script))
    call = cluster.call(PROMPT, temperature=0.0, max_tokens=300)
    begun = await read_some(call, 10)
    second = await cluster.verify(slow_target(script), name="verifier-1")
    await cluster.stop(first)
    rest = await read_rest(call)
    assert (*begun, *rest.token_ids) == script.continue_text(PROMPT, max_len=303)
    assert second.verifier.num_rounds > 0
    assert {each.reason: each.count for each in (await cluster.status()).moves}["drain"] == 1


async def test_a_live_workers_name_is_not_given_to_another(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    """Else two of them would take each other's place for ever."""
    await cluster.coordinate()
    verifier = await cluster.verify(table_target)
    card = registry_pb2.Worker()
    card.CopyFrom((await cluster.worker_status("verifier-0")).worker)
    card.hello.instance_id, card.address = "another", "127.0.0.1:9"
    stub = registry_pb2_grpc.RegistryServiceStub(cluster.channel)
    code, details = await refusal_of(stub.Register(registry_pb2.RegisterRequest(worker=card)))
    assert code is grpc.StatusCode.ALREADY_EXISTS
    assert f"verifier-0 is taken by a live worker at {verifier.address}" in details
    assert (await cluster.worker_status("verifier-0")).worker.address == verifier.address
