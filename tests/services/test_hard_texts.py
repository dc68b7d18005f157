"""Texts that short tests do not meet: exact ties, one token over and over, thousands of tokens."""

import random
from collections.abc import Sequence

import pytest

from ssd.engine.loading import LoadedModel
from tests.models.scripted_model import Prefix, ScriptedModel
from tests.models.table_runner import VOCAB_SIZE, agreeing, load_table, opposing, short_sighted
from tests.services.cluster import Cluster

MODES = ("ssd", "sd", "ar")


async def test_a_draft_of_one_wrong_token_is_verified_too(
    cluster: Cluster, script: ScriptedModel
) -> None:
    """B2."""
    await cluster.coordinate(
        verifier={"max_tree_nodes": 1}, drafter={"max_depth": 1, "sd_depth": 1}
    )
    await cluster.pair(load_table(agreeing(script)), load_table(opposing(script)))
    for mode in MODES:
        reply = await cluster.generate((1, 2, 3), mode=mode, temperature=0.0, max_tokens=30)
        assert reply.token_ids == script.continue_text((1, 2, 3), max_len=33)
        assert reply.num_accepted == 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_of_equal_scores_the_lowest_id_wins_in_every_mode(
    cluster: Cluster, script: ScriptedModel, temperature: float
) -> None:
    """B3: four levels for twelve ids, so that every draw is tied."""

    def tied(text: Prefix) -> Sequence[float]:
        return [float(score // 300) for score in script.scores(text)]

    def greedy(length: int) -> tuple[int, ...]:
        text = [1, 2, 3]
        while len(text) < length:
            scores = tied(tuple(text))
            text.append(scores.index(max(scores)))
        return tuple(text[3:])

    await cluster.pair(load_table(tied), load_table(tied))
    texts = {
        (
            await cluster.generate(
                (1, 2, 3), mode=mode, temperature=temperature, top_k=2, seed=5, max_tokens=40
            )
        ).token_ids
        for mode in MODES
    }
    assert len(texts) == 1
    if temperature == 0.0:
        assert texts == {greedy(43)}


@pytest.mark.parametrize("mode", MODES)
async def test_one_token_over_and_over(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel, mode: str
) -> None:
    """B4."""
    await cluster.pair(target, draft)
    for prompt in ("a" * 200, "ab" * 100):
        plain = await cluster.generate(prompt, mode="ar", temperature=0.0, max_tokens=120)
        reply = await cluster.generate(prompt, mode=mode, temperature=0.0, max_tokens=120)
        assert reply.token_ids == plain.token_ids


async def test_a_prompt_of_four_thousand_tokens_and_a_long_output(
    cluster: Cluster, script: ScriptedModel
) -> None:
    """B4: short texts hide a collapse."""
    rng = random.Random(1)
    prompt = tuple(rng.randrange(VOCAB_SIZE) for _ in range(4_096))
    await cluster.pair(
        load_table(agreeing(script), context_len=8_192, forward_s=0.003),
        load_table(short_sighted(script), context_len=8_192),
    )
    expected = script.continue_text(prompt, max_len=4_096 + 200)
    for mode in ("ssd", "sd"):
        reply = await cluster.generate(prompt, mode=mode, temperature=0.0, max_tokens=200)
        assert reply.token_ids == expected
        assert reply.num_accepted > 0
    await cluster.until_freed()
