"""What is served is plain decoding, whatever the mode, the company and the drafter."""

import asyncio
import random

import pytest

from ssd.engine.loading import LoadedModel, load_model
from ssd.v1 import generation_pb2
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table, opposing
from tests.models.tiny_pair import TinyPair
from tests.services.cluster import Cluster, mode_of

PROMPT = "Once upon a time there was a service"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_all_modes_give_the_same_ids(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel, temperature: float
) -> None:
    await cluster.pair(target, draft)
    replies = {
        mode: await cluster.generate(
            PROMPT, mode=mode, temperature=temperature, seed=7, max_tokens=48
        )
        for mode in ("ar", "sd", "ssd", "shadow")
    }
    assert [mode_of(reply) for reply in replies.values()] == ["ar", "sd", "ssd", "shadow"]
    assert len({reply.token_ids for reply in replies.values()}) == 1
    assert replies["ar"].num_accepted == replies["shadow"].num_accepted == 0
    assert replies["sd"].num_accepted > 0
    await cluster.until_freed()


async def test_only_the_counters_see_what_a_shadow_drafts(
    cluster: Cluster, tiny_pair: TinyPair
) -> None:
    twins = [load_model(str(tiny_pair.target), dtype="fp64") for _ in range(2)]
    await cluster.pair(*twins)
    plain, shadowed, two = [
        await cluster.generate(PROMPT, mode=mode, seed=3, max_tokens=100, ignore_eos=True, n=n)
        for mode, n in (("ar", 1), ("shadow", 1), ("shadow", 2))
    ]
    assert shadowed.token_ids == plain.token_ids
    assert not plain.complete.HasField("shadow")
    ended: list[generation_pb2.Complete | generation_pb2.Choice] = [
        shadowed.complete,
        *two.complete.choices,
    ]
    for choice in ended:
        assert choice.figures.num_rounds == 100
        assert (choice.figures.num_proposed, choice.figures.num_hits) == (0, 0)
        assert dict(choice.figures.plain_rounds) == {"mode": 100}
        assert choice.shadow.num_tested > 0
        assert choice.shadow.acceptance == 1.0  # its draft is the target itself
        assert choice.shadow.num_rounds < 100
    assert two.complete.shadow == two.complete.choices[0].shadow
    await cluster.until_freed()


async def test_another_seed_gives_another_text_only_above_temperature_0(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    greedy = [
        await cluster.generate(PROMPT, temperature=0.0, seed=seed, max_tokens=12) for seed in (1, 2)
    ]
    sampled = [
        await cluster.generate(PROMPT, temperature=1.0, seed=seed, max_tokens=12) for seed in (1, 2)
    ]
    assert greedy[0].token_ids == greedy[1].token_ids
    assert sampled[0].token_ids != sampled[1].token_ids


async def test_a_seed_that_the_server_drew_gives_the_text_again(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    first = await cluster.generate(PROMPT, max_tokens=12)
    again = await cluster.generate(PROMPT, max_tokens=12, seed=first.complete.seed)
    assert again.token_ids == first.token_ids


async def test_concurrent_requests_equal_their_own_single_runs(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    """B5, B6: mixed modes, seeds, temperatures and lengths; alone, in a crowd, first or last, and
    beside some without a seed."""
    await cluster.pair(target, draft)
    rng = random.Random(5)
    requests = [
        {
            "prompt": PROMPT[: rng.randrange(1, len(PROMPT))],
            "mode": rng.choice(("ssd", "ssd", "sd", "ar")),
            "temperature": rng.choice((0.0, 0.7, 1.0)),
            "top_k": rng.choice((0, 5)),
            "top_p": rng.choice((1.0, 0.9)),
            "seed": rng.randrange(2**64),
            "max_tokens": rng.randrange(1, 40),
        }
        for _ in range(14)
    ]
    alone = [await cluster.generate(**request) for request in requests]  # type: ignore[arg-type]
    unseeded = [{key: each[key] for key in each if key != "seed"} for each in requests[::4]]
    crowd = await asyncio.gather(
        *(cluster.generate(**each) for each in [*requests, *unseeded])  # type: ignore[arg-type]
    )
    assert [each.token_ids for each in crowd[: len(alone)]] == [each.token_ids for each in alone]
    await cluster.until_freed()


async def test_a_draft_that_is_the_target_is_always_accepted(
    cluster: Cluster, tiny_pair: TinyPair
) -> None:
    """G1: a rewind that is off by one would decay acceptance and change no text."""
    twins = [load_model(str(tiny_pair.target), dtype="fp64") for _ in range(2)]
    await cluster.pair(*twins)
    for mode in ("ssd", "sd"):
        reply = await cluster.generate(
            PROMPT, mode=mode, temperature=1.0, seed=3, max_tokens=200, ignore_eos=True
        )
        assert reply.complete.figures.num_tested > 0
        assert reply.acceptance == 1.0, mode


async def test_an_adversary_changes_nothing(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    await cluster.pair(table_target, load_table(opposing(script)))
    for mode in ("ssd", "sd", "ar"):
        reply = await cluster.generate([1, 2, 3], mode=mode, temperature=0.0, max_tokens=30)
        assert reply.token_ids == script.continue_text((1, 2, 3), max_len=33)
        # The likeliest token is the last that the draft would name: none is ever accepted.
        assert reply.num_accepted == 0


async def test_a_seeded_text_is_the_same_under_an_adversary(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    await cluster.pair(table_target, load_table(opposing(script)))
    texts = {
        mode: await cluster.generate([1, 2, 3], mode=mode, temperature=1.0, seed=9, max_tokens=40)
        for mode in ("ssd", "sd", "ar")
    }
    assert len({reply.token_ids for reply in texts.values()}) == 1


async def test_a_prompt_longer_than_a_forward_is_prefilled_in_chunks(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    await cluster.coordinate(
        verifier={"max_rows": 16, "max_tree_nodes": 4}, drafter={"max_rows": 16}
    )
    await cluster.pair(table_target, table_draft)
    prompt = tuple(index % 12 for index in range(100))
    reply = await cluster.generate(prompt, temperature=0.0, max_tokens=12)
    assert reply.token_ids == script.continue_text(prompt, max_len=112)


async def test_a_drafter_may_serve_two_verifiers(
    cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel
) -> None:
    await cluster.coordinate()
    for index in range(2):
        await cluster.verify(
            load_table(agreeing(script), name="table-target"), name=f"verifier-{index}"
        )
    await cluster.draft(table_draft)
    prompts = [(index, index + 1) for index in range(6)]
    replies = await asyncio.gather(
        *(cluster.generate(prompt, temperature=0.0, max_tokens=24) for prompt in prompts)
    )
    for prompt, reply in zip(prompts, replies, strict=True):
        assert reply.token_ids == script.continue_text(prompt, max_len=26)
    rounds = [worker.verifier.num_rounds for worker in cluster.workers[:2]]
    assert all(rounds), "sessions go to the least busy verifier"
    await cluster.until_freed()
