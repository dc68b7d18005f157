"""A worker that takes leave loses nobody's token."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc
import pytest
import structlog
from typer.testing import CliRunner, Result

from ssd.cli.main import app
from ssd.client import Client
from ssd.core.errors import UnknownSession
from ssd.engine.loading import LoadedModel
from ssd.v1 import registry_pb2, registry_pb2_grpc
from tests.models.scripted_model import ScriptedModel
from tests.services.cluster import Cluster, Hosted, Reply, read_rest, read_some, refusal_of, until
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


async def has_run(worker: Hosted) -> bool:
    return worker.verifier.num_rounds > 0


@pytest.fixture
def quiet() -> Iterator[None]:
    """The services run in this process, and their log would be in the command's output."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()


async def run(*arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, ["drain", *arguments])


@pytest.mark.usefixtures("quiet")
async def test_without_a_spare_device_one_verifier_after_the_other_is_replaced(
    cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel
) -> None:
    """The manual's way: `ssd drain`, delete the pod, its successor bears its name, the next."""
    await cluster.coordinate()
    verifiers = [
        await cluster.verify(slow_target(script), name=f"verifier-{index}") for index in range(2)
    ]
    await cluster.draft(table_draft)
    stopping = asyncio.Event()
    replies: list[Reply] = []

    async def ask_on_and_on() -> None:
        while not stopping.is_set():
            replies.append(await cluster.generate(PROMPT, temperature=0.0, max_tokens=100))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(ask_on_and_on())
        for index, old in enumerate(verifiers):
            name = f"verifier-{index}"
            said = await run(name, "--address", cluster.address, "--wait-s", "20")
            assert (said.exit_code, said.output) == (0, f"{name} drains; it has no sessions\n")
            await cluster.stop(old)
            new = await cluster.verify(slow_target(script), name=name)
            await until(partial(has_run, new))
        stopping.set()
    expected = script.continue_text(PROMPT, max_len=103)
    assert len(replies) > 3
    assert all(each.token_ids == expected for each in replies)


@pytest.mark.usefixtures("quiet")
async def test_a_pod_that_goes_drains_the_worker_on_it(
    cluster: Cluster, script: ScriptedModel, tmp_path: Path
) -> None:
    """Its preStop: no name, and the coordinators as the worker's own settings have them."""
    await cluster.coordinate()
    await cluster.verify(slow_target(script))
    call = cluster.call(PROMPT, temperature=0.0, max_tokens=150)
    await read_some(call, 5)
    settings = tmp_path / "ssd.yaml"
    settings.write_text(f"cluster:\n  coordinators: ['127.0.0.1:1', '{cluster.address}']\n")
    said = await run("--here", "--wait-s", "30", "--config", str(settings))
    assert said.exit_code == 0, said.output
    assert said.stdout == "verifier-0 drains; it has no sessions\n", "it waited for the last one"
    assert said.stderr.startswith("127.0.0.1:1: "), "the one that is away is named"
    rest = await read_rest(call)
    assert rest.complete.usage.completion_tokens == 150


@pytest.mark.usefixtures("quiet")
async def test_drain_wants_a_worker_and_one_way_to_name_it(cluster: Cluster) -> None:
    await cluster.coordinate()
    for words in ((), ("verifier-0", "--here")):
        refused = await run(*words, "--address", cluster.address)
        assert refused.exit_code == 2
        assert refused.stderr == "error: name a worker, or say --here\n"
    nobody = await run("--here", "--address", cluster.address)
    assert nobody.output == "no worker of this host is registered\n"
