"""Sessions outlive their verifier: they are opened elsewhere, from the coordinator's books."""

import asyncio

import grpc

from ssd.engine.loading import LoadedModel
from ssd.v1 import registry_pb2, registry_pb2_grpc
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table
from tests.services.cluster import Cluster, read, read_rest, read_some, refusal_of, until

PROMPT = (1, 2, 3)


def slow_target(script: ScriptedModel, *, name: str = "table-target") -> LoadedModel:
    return load_table(agreeing(script), name=name, forward_s=0.004)


async def test_sessions_of_a_stopped_verifier_go_on_at_another_of_its_kind(
    cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel
) -> None:
    """The clients' streams go on, with the texts that plain decoding gives."""
    first, _ = await cluster.pair(slow_target(script), table_draft)
    calls = {
        mode: cluster.call(PROMPT, mode=mode, temperature=temperature, seed=4, max_tokens=250)
        for mode, temperature in (("ssd", 0.0), ("sd", 0.0), ("ar", 0.0))
    }
    begun = {mode: await read_some(call, 10) for mode, call in calls.items()}
    await cluster.verify(slow_target(script), name="verifier-1")
    await cluster.stop(first)
    for mode, call in calls.items():
        rest = await read_rest(call)
        assert (*begun[mode], *rest.token_ids) == script.continue_text(PROMPT, max_len=253)
        assert rest.num_tokens == 250
    await cluster.until_freed()


async def test_a_sampled_text_is_the_same_after_a_move(
    cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel
) -> None:
    first, _ = await cluster.pair(slow_target(script), table_draft)
    expected = await cluster.generate(PROMPT, temperature=1.0, seed=4, max_tokens=120)
    call = cluster.call(PROMPT, temperature=1.0, seed=4, max_tokens=120)
    begun = await read_some(call, 10)
    await cluster.stop(first)
    await cluster.verify(slow_target(script), name="verifier-0")
    assert (*begun, *(await read_rest(call)).token_ids) == expected.token_ids
    await cluster.until_freed()


async def test_a_session_waits_for_its_own_kind_until_reopen_s(
    cluster: Cluster, script: ScriptedModel
) -> None:
    """Another fingerprint may say another text, so it does not count."""
    await cluster.coordinate(timeouts={"reopen_s": 1.0})
    first = await cluster.verify(slow_target(script))
    call = cluster.call(PROMPT, temperature=0.0, max_tokens=400)
    await read_some(call, 10)
    await cluster.verify(slow_target(script, name="other-weights"), name="verifier-1")
    await cluster.stop(first)
    code, details = await refusal_of(read_rest(call))
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "1 s" in details
    again = await cluster.generate(PROMPT, temperature=0.0, max_tokens=4)
    assert again.token_ids == script.continue_text(PROMPT, max_len=7)
    await cluster.until_freed()


async def test_without_a_verifier_requests_are_unavailable(cluster: Cluster) -> None:
    await cluster.coordinate()
    code, details = await refusal_of(cluster.generate(PROMPT))
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "verifier" in details


async def test_a_verifier_that_comes_back_at_once_takes_its_sessions_back(
    cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel
) -> None:
    """Stopped and started under the same name three times while clients read."""
    verifier, _ = await cluster.pair(slow_target(script), table_draft)
    calls = [
        cluster.call((index, 2), temperature=0.0, max_tokens=300, mode=mode)
        for index, mode in enumerate(("ssd", "sd", "ar", "ssd"))
    ]
    reads = [asyncio.create_task(read(call)) for call in calls]
    for _ in range(3):
        await asyncio.sleep(0.1)
        await cluster.stop(verifier)
        verifier = await cluster.verify(slow_target(script))
    for index, reply in enumerate(await asyncio.gather(*reads)):
        assert reply.token_ids == script.continue_text((index, 2), max_len=302)
    await cluster.until_freed()


async def test_a_tokenizer_that_cannot_be_fetched_is_asked_for_again(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    """A verifier that registers before it serves, or is cut off meanwhile, is not lost for good."""
    await cluster.coordinate()
    await cluster.verify(table_target)
    card = (await cluster.worker_status("verifier-0")).worker
    card.name, card.address = "verifier-9", "127.0.0.1:9"
    await register(cluster, card)

    async def is_told() -> bool:
        return "no tokenizer" in (await cluster.worker_status("verifier-9")).reason

    await until(is_told)
    reply = await cluster.generate(PROMPT, temperature=0.0, max_tokens=4)
    assert reply.token_ids == script.continue_text(PROMPT, max_len=7)


async def register(cluster: Cluster, card: registry_pb2.Worker) -> None:
    stub = registry_pb2_grpc.RegistryServiceStub(cluster.channel)
    await stub.Register(registry_pb2.RegisterRequest(worker=card))
