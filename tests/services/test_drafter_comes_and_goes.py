"""A drafter costs or brings speed. That it is missing, late, lost or back changes no text."""

import asyncio

from drafter_service.service import DrafterService
from ssd.engine.loading import LoadedModel
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table, short_sighted
from tests.services.cluster import Cluster, Hosted, read_rest, read_some, until

PROMPT = (1, 2, 3)


def slow_target(script: ScriptedModel) -> LoadedModel:
    """Slow enough that something can happen in the middle of a generation."""
    return load_table(agreeing(script), name="table-target", forward_s=0.004)


async def until_detached(verifier: Hosted) -> None:
    async def is_detached() -> bool:
        return not verifier.verifier.drafters

    await until(is_detached)


async def test_without_a_drafter_every_mode_decodes_plainly(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    await cluster.coordinate()
    await cluster.verify(table_target)
    for mode in ("ssd", "sd", "ar"):
        reply = await cluster.generate(PROMPT, mode=mode, temperature=0.0, max_tokens=20)
        assert reply.token_ids == script.continue_text(PROMPT, max_len=23)
        assert reply.complete.figures.num_rounds == 20
        assert reply.complete.figures.num_proposed == 0


async def test_a_drafter_that_appears_later_helps_a_running_generation(
    cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel
) -> None:
    await cluster.coordinate()
    await cluster.verify(slow_target(script))
    call = cluster.call(PROMPT, temperature=0.0, max_tokens=250)
    first = await read_some(call, 5)
    await cluster.draft(table_draft)
    rest = await read_rest(call)
    assert (*first, *rest.token_ids) == script.continue_text(PROMPT, max_len=253)
    assert rest.num_accepted > 0
    await cluster.until_freed()


async def test_a_drafter_stopped_in_the_middle_leaves_a_generation_to_finish(
    cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel
) -> None:
    verifier, drafter = await cluster.pair(slow_target(script), table_draft)
    calls = {
        mode: cluster.call(PROMPT, temperature=0.0, max_tokens=250, mode=mode)
        for mode in ("ssd", "sd")
    }
    first = {mode: await read_some(call, 20) for mode, call in calls.items()}
    await cluster.stop(drafter)
    await until_detached(verifier)
    for mode, call in calls.items():
        rest = await read_rest(call)
        assert (*first[mode], *rest.token_ids) == script.continue_text(PROMPT, max_len=253)
        assert rest.num_accepted > 0
    await cluster.until_freed()


async def test_a_restarted_drafter_is_used_again(
    cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel
) -> None:
    """H1: it comes back under its name, at another address, in the middle of a generation."""
    _, drafter = await cluster.pair(slow_target(script), table_draft)
    call = cluster.call(PROMPT, temperature=0.0, max_tokens=400)
    first = await read_some(call, 20)
    await cluster.stop(drafter)
    second = load_table(short_sighted(script), name="table-draft")
    restarted = await cluster.draft(second)
    rest = await read_rest(call)
    assert (*first, *rest.token_ids) == script.continue_text(PROMPT, max_len=403)
    assert restarted.drafter.num_steps > 0
    await cluster.until_freed()


async def test_several_drafters_write_one_map(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    await cluster.coordinate()
    verifier = await cluster.verify(table_target)
    for index in range(2):
        draft = load_table(short_sighted(script), name="table-draft")
        await cluster.draft(draft, name=f"drafter-{index}")

    async def are_attached() -> bool:
        return len(verifier.verifier.drafters) == 2

    await until(are_attached)
    reply = await cluster.generate(PROMPT, temperature=0.0, max_tokens=80)
    assert reply.token_ids == script.continue_text(PROMPT, max_len=83)
    drafters = [each for each in cluster.workers if isinstance(each.service, DrafterService)]
    assert all(each.drafter.num_steps for each in drafters)
    await cluster.until_freed()


async def test_a_drafter_without_room_refuses_a_session_and_keeps_the_others(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    await cluster.coordinate(drafter={"kv_slots": 400})
    await cluster.pair(table_target, table_draft)
    replies = await asyncio.gather(
        *(
            cluster.generate(PROMPT, temperature=0.0, max_tokens=60, request_id=f"r{index}")
            for index in range(5)
        )
    )
    assert {each.token_ids for each in replies} == {script.continue_text(PROMPT, max_len=63)}
    await cluster.until_freed()


async def test_a_drafter_with_a_shorter_context_is_skipped_past_its_end(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    """F1: prompts below, at and above the drafter's context."""
    await cluster.pair(table_target, load_table(agreeing(script), context_len=32))
    for length in (8, 31, 32, 33, 60):
        prompt = tuple(index % 5 for index in range(length))
        for mode in ("ssd", "sd"):
            reply = await cluster.generate(prompt, temperature=0.0, max_tokens=40, mode=mode)
            assert reply.token_ids == script.continue_text(prompt, max_len=length + 40)
            if mode == "sd":  # which waits for its drafts
                assert (reply.num_accepted > 0) == (length <= 32)
    await cluster.until_freed()
