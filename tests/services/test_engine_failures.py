"""G5, H3: what makes a forward fail costs the request that brought it, and nobody else."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import pytest

from ssd.engine.loading import LoadedModel
from tests.models.scripted_model import Prefix, ScriptedModel
from tests.models.table_runner import Logits, agreeing, load_table, short_sighted
from tests.services.cluster import Cluster, refusal_of, until

PROMPT = (1, 2, 3)
POISON = (7, 7, 7, 7)


def poisoned(logits: Logits) -> Logits:
    """Raises where a text begins with the poison."""

    def logits_of(text: Prefix) -> Sequence[float]:
        if text[:4] == POISON:
            raise RuntimeError("CUDA error: an illegal memory access")
        return logits(text)

    return logits_of


async def four_and(cluster: Cluster, other: Callable[[], Any]) -> list[Any]:
    """Four ordinary requests and another at the same time."""
    calls = [cluster.generate((index, 2, 3), temperature=0.0, max_tokens=60) for index in range(4)]
    return await asyncio.gather(*calls, other())


@pytest.mark.parametrize("mode", ["ssd", "ar"])
async def test_a_request_that_makes_the_verifier_fail_is_refused_alone(
    cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel, mode: str
) -> None:
    target = load_table(poisoned(agreeing(script)), name="table-target")
    verifier, _ = await cluster.pair(target, table_draft)
    *replies, refused = await four_and(
        cluster,
        lambda: refusal_of(cluster.generate(POISON, temperature=0.0, max_tokens=9, mode=mode)),
    )
    code, details = refused
    assert code is grpc.StatusCode.INTERNAL
    assert "the engine failed 3 times" in details
    for index, reply in enumerate(replies):
        assert reply.token_ids == script.continue_text((index, 2, 3), max_len=63)
    again = await cluster.generate(PROMPT, temperature=0.0, max_tokens=20)
    assert again.token_ids == script.continue_text(PROMPT, max_len=23)
    assert verifier.verifier.num_rounds > 20
    await cluster.until_freed()


async def test_a_request_that_makes_the_drafter_fail_goes_on_without_drafts(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    draft = load_table(poisoned(short_sighted(script)), name="table-draft")
    await cluster.pair(table_target, draft)
    *replies, alone = await four_and(
        cluster, lambda: cluster.generate(POISON, temperature=0.0, max_tokens=60, mode="sd")
    )
    assert alone.token_ids == script.continue_text(POISON, max_len=64)
    assert alone.num_accepted == 0
    for index, reply in enumerate(replies):
        assert reply.token_ids == script.continue_text((index, 2, 3), max_len=63)
    again = await cluster.generate(PROMPT, temperature=0.0, max_tokens=40, mode="sd")
    assert again.num_accepted > 0
    await cluster.until_freed()


async def test_a_worker_that_cannot_register_any_more_ends(
    cluster: Cluster, table_target: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would look alive, and nobody would find it."""

    async def keep_registered(*_: object, **__: object) -> None:
        raise MemoryError("no more")

    ended: list[BaseException] = []
    monkeypatch.setattr("ssd.worker.host.keep_registered", keep_registered)
    monkeypatch.setattr("ssd.worker.host.exit_when_engine_dies", ended.append)
    await cluster.coordinate()
    starting = asyncio.create_task(cluster.verify(table_target))

    async def has_ended() -> bool:
        return bool(ended)

    await until(has_ended)
    starting.cancel()
    assert isinstance(ended[0], MemoryError)
