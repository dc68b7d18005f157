"""A client whose call broke goes on where it stood: no token twice, none missing."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from ssd.client import Client, Options
from ssd.engine.loading import LoadedModel
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table
from tests.services.cluster import Cluster, read, read_rest, read_some, refusal_of, until
from tests.services.test_several_coordinators import slow_target

PROMPT = (1, 2, 3)
REQUEST: dict[str, Any] = {"temperature": 0.0, "max_tokens": 300, "request_id": "r"}


async def leave(cluster: Cluster, call: Any) -> None:
    """Hang up, and wait until the server has noticed."""
    call.cancel()

    async def is_left() -> bool:
        return not (await cluster.status()).sessions

    await until(is_left)


@pytest.fixture
async def serving(cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel) -> Cluster:
    await cluster.pair(slow_target(script), table_draft)
    return cluster


async def test_a_client_that_left_goes_on_where_it_stood(
    serving: Cluster, script: ScriptedModel
) -> None:
    """Its KV is free meanwhile; the text is kept."""
    call = serving.call(PROMPT, **REQUEST)
    begun = await read_some(call, 20)
    await leave(serving, call)
    await serving.until_freed()
    rest = await read_rest(serving.call(PROMPT, **REQUEST, resume_from=len(begun)))
    assert (*begun, *rest.token_ids) == script.continue_text(PROMPT, max_len=303)
    assert rest.complete.usage.completion_tokens == 300


async def test_a_finished_text_can_be_had_again_from_any_token(
    serving: Cluster, script: ScriptedModel
) -> None:
    short = REQUEST | {"max_tokens": 12}
    whole = await serving.generate(PROMPT, **short)
    for resume_from in (0, 1, 7, 11, 12):
        rest = await read_rest(serving.call(PROMPT, **short, resume_from=resume_from))
        assert rest.token_ids == whole.token_ids[resume_from:]
        assert whole.text.endswith(rest.text)
    code, details = await refusal_of(serving.generate(PROMPT, **short, resume_from=13))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "resume_from is 13, and the text has 12 tokens" in details


async def test_the_newest_call_has_the_session(serving: Cluster, script: ScriptedModel) -> None:
    """The old one may stand without its client knowing: a proxy between them is gone."""
    first = serving.call(PROMPT, **REQUEST)
    begun = await read_some(first, 10)
    second = serving.call(PROMPT, **REQUEST, resume_from=len(begun))
    rest = await read_rest(second)
    assert (*begun, *rest.token_ids) == script.continue_text(PROMPT, max_len=303)
    code, details = await refusal_of(read_rest(first))
    assert code is grpc.StatusCode.CANCELLED
    assert "another call goes on" in details


@pytest.mark.parametrize(
    "other", [{"max_tokens": 299}, {"temperature": 0.5}, {"mode": "ar"}, {"stop_token_ids": [3]}]
)
async def test_a_known_id_with_another_request_is_refused(
    serving: Cluster, other: dict[str, Any]
) -> None:
    call = serving.call(PROMPT, **REQUEST)
    begun = await read_some(call, 5)
    again = REQUEST | other | {"resume_from": len(begun)}
    code, details = await refusal_of(serving.generate(PROMPT, **again))
    assert code is grpc.StatusCode.ALREADY_EXISTS
    assert "belongs to another request" in details
    call.cancel()


async def test_an_unseeded_request_goes_on_with_the_seed_it_was_given(serving: Cluster) -> None:
    request = REQUEST | {"temperature": 1.0, "max_tokens": 60}
    whole = await serving.generate(PROMPT, **request)
    rest = await read_rest(serving.call(PROMPT, **request, resume_from=30))
    assert rest.token_ids == whole.token_ids[30:]
    assert rest.complete.seed == whole.complete.seed


async def test_a_text_that_is_not_known_any_more_is_made_again_if_it_can_be(
    serving: Cluster,
) -> None:
    request = REQUEST | {"temperature": 1.0, "max_tokens": 60, "seed": 5}
    whole = await serving.generate(PROMPT, **request)
    unknown = request | {"request_id": "another"}
    rest = await read_rest(serving.call(PROMPT, **unknown, resume_from=30))
    assert rest.token_ids == whole.token_ids[30:]
    del unknown["seed"]
    unknown["request_id"] = "a third"
    code, details = await refusal_of(serving.generate(PROMPT, **unknown, resume_from=30))
    assert code is grpc.StatusCode.NOT_FOUND
    assert "without a seed of the coupled rule" in details


async def test_a_text_is_kept_for_so_long_and_no_longer(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    await cluster.coordinate(coordinator={"port": 0, "keep_s": 0.5})
    await cluster.verify(table_target)
    request = REQUEST | {"temperature": 1.0, "max_tokens": 8}
    await cluster.generate(PROMPT, **request)

    async def is_forgotten() -> bool:
        await asyncio.sleep(1.7)  # every reading keeps it
        reading = read(cluster.call(PROMPT, **request, resume_from=8))
        (outcome,) = await asyncio.gather(reading, return_exceptions=True)
        if not isinstance(outcome, grpc.aio.AioRpcError):
            return False
        return outcome.code() is grpc.StatusCode.NOT_FOUND

    await until(is_forgotten)


async def read_until_broken(call: Any) -> list[int]:
    """What came before the server went away."""
    token_ids: list[int] = []
    with contextlib.suppress(grpc.aio.AioRpcError):
        while (response := await call.read()) is not grpc.aio.EOF:
            assert not response.HasField("complete"), "it came to its end"
            token_ids += response.delta.token_ids
    return token_ids


async def test_a_restarted_coordinator_goes_on_with_its_sessions(
    cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel, tmp_path: Path
) -> None:
    """Those whose clients come back, and one whose client does not."""
    journal = {"coordinator": {"port": 0, "journal": str(tmp_path / "journal")}}
    await cluster.coordinate(**journal)
    await cluster.pair(slow_target(script), table_draft)
    prompts: Sequence[tuple[int, ...]] = [(index, 2, 3) for index in range(6)]
    values = [
        {"temperature": float(index % 2), "seed": 7, "max_tokens": 300, "request_id": f"r{index}"}
        for index in range(6)
    ]
    expected = await asyncio.gather(
        *(
            cluster.generate(prompt, **(each | {"request_id": f"x{index}"}))
            for index, (prompt, each) in enumerate(zip(prompts, values, strict=True))
        )
    )
    calls = [cluster.call(prompt, **each) for prompt, each in zip(prompts, values, strict=True)]
    begun = [list(await read_some(call, 5)) for call in calls]
    reading = [asyncio.create_task(read_until_broken(call)) for call in calls]
    await cluster.restart_coordinator(**journal)
    for index, more in enumerate(reading):
        begun[index] += await more

    async def is_attached() -> bool:
        with contextlib.suppress(grpc.aio.AioRpcError):  # it may not listen yet
            workers = (await cluster.status()).workers
            return any(each.is_up and each.worker.name == "verifier-0" for each in workers)
        return False

    await until(is_attached)
    for index in range(5):
        resumed = values[index] | {"resume_from": len(begun[index])}
        rest = await read_rest(cluster.call(prompts[index], **resumed))
        assert (*begun[index], *rest.token_ids) == expected[index].token_ids
    await cluster.cancel("r5") if "r5" in {
        each.session_id for each in (await cluster.status()).sessions
    } else None
    await cluster.until_freed()


async def test_another_coordinators_request_is_gone_on_with_there(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    """It says where, and our client goes there by itself."""
    await cluster.coordinate(coordinator={"port": 0, "ordinal": 1})
    await cluster.verify(table_target)
    other = Cluster()
    try:
        peers = ["127.0.0.1:9", cluster.address]
        await other.coordinate(coordinator={"port": 0, "ordinal": 0, "peers": peers})
        await other.verify(load_table(agreeing(script), name="table-target"))
        request = {"request_id": "r-1", "temperature": 0.0, "max_tokens": 9}
        code, details = await refusal_of(other.generate(PROMPT, **request, resume_from=0))
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert details == f"request r-1 belongs to coordinator 1 at {cluster.address}"

        def ask() -> tuple[int, ...]:
            options = Options(temperature=0.0, max_tokens=9, request_id="r-1", resume_s=5.0)
            with Client(other.address) as client:
                pieces = list(client.generate(PROMPT, options))
            return tuple(token_id for piece in pieces for token_id in piece.token_ids)

        assert await asyncio.to_thread(ask) == script.continue_text(PROMPT, max_len=12)
        assert await cluster.workers[0].ask(lambda: cluster.workers[0].verifier.num_rounds) > 0
    finally:
        await other.close()
