"""A drafter costs or brings speed. That it is missing, late, lost or back changes no text."""

import asyncio
from pathlib import Path

import pytest
from transformers import GPT2Config, GPT2LMHeadModel

from drafter_service.service import DrafterService
from ssd.engine.loading import LoadedModel, load_model
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table, short_sighted
from tests.models.tiny_pair import NUM_BYTES, byte_tokenizer, write_tiny_pair
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
                assert (reply.num_accepted > 0) == (length < 32)  # one token came before
    await cluster.until_freed()


SHORT_LEN = 48


def write_learned_positions(folder: Path) -> None:
    """A draft that has no row for a position beyond its context, and fails there."""
    config = GPT2Config(
        vocab_size=NUM_BYTES + 1, n_positions=SHORT_LEN, n_embd=32, n_layer=1, n_head=2
    )
    GPT2LMHeadModel(config).double().save_pretrained(folder)
    byte_tokenizer().save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("has_learned_positions", [False, True])
async def test_a_model_with_a_shorter_context_drafts_up_to_its_end(
    cluster: Cluster, tmp_path: Path, has_learned_positions: bool
) -> None:
    """F1 with real models: texts that end before, at and after it, and begin after it."""
    pair = write_tiny_pair(tmp_path, draft_context_len=SHORT_LEN)
    if has_learned_positions:
        write_learned_positions(pair.draft)
    target, draft = (load_model(str(folder), dtype="fp64") for folder in (pair.target, pair.draft))
    assert (target.context_len, draft.context_len) == (512, SHORT_LEN)
    _, drafter = await cluster.pair(target, draft)
    num_drafted = 0
    for length in (8, SHORT_LEN - 1, SHORT_LEN, SHORT_LEN + 1, 2 * SHORT_LEN):
        prompt = [(7 * index) % NUM_BYTES for index in range(length)]
        options = {"temperature": 0.0, "max_tokens": 60, "ignore_eos": True}
        plain, *drafted = [
            await cluster.generate(prompt, mode=mode, **options) for mode in ("ar", "sd", "ssd")
        ]
        assert {each.token_ids for each in drafted} == {plain.token_ids}
        num_drafted += len(drafted)
        if not has_learned_positions:  # that draft is no relative of the target
            assert (drafted[0].num_accepted > 0) == (length < SHORT_LEN)
    await cluster.until_freed()
    # A step beyond its positions fails, and the session would have been opened there again.
    assert drafter.drafter.num_opened == num_drafted
