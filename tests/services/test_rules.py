"""`rule` in a request: who gets which rule, and what is said about it."""

from collections import defaultdict

import pytest

from ssd.core.rule import Rule
from ssd.engine.loading import LoadedModel
from ssd.v1 import common_pb2
from tests.exactness.chi_square import ALPHA
from tests.exactness.ratio_pairs import p_of
from tests.exactness.test_law_under_drafts import LOGITS, VOCAB_SIZE
from tests.models.scripted_model import Prefix, ScriptedModel
from tests.models.table_runner import load_table
from tests.services.cluster import Cluster
from tests.services.test_drain import drain

PROMPT = "Once upon a time there was a service"


@pytest.mark.parametrize("mode", ["ssd", "sd", "ar"])
async def test_a_request_may_ask_for_ratio(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel, mode: str
) -> None:
    await cluster.pair(target, draft)
    reply = await cluster.generate(
        PROMPT, rule=Rule.RATIO, mode=mode, temperature=1.0, max_tokens=60, ignore_eos=True
    )
    assert len(reply.token_ids) == 60
    assert reply.complete.rule == common_pb2.RULE_RATIO
    assert reply.complete.exactness.startswith("the target's law; a seed does not fix the text")
    assert (reply.num_accepted > 0) == (mode != "ar")
    await cluster.until_freed()


async def test_rules_share_a_batch_and_coupled_texts_do_not_change(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    fields = {"temperature": 1.0, "seed": 7, "max_tokens": 48, "ignore_eos": True}
    alone = await cluster.generate(PROMPT, **fields)
    other = cluster.call(PROMPT, rule=Rule.RATIO, max_tokens=200, ignore_eos=True)
    assert (await cluster.generate(PROMPT, **fields)).token_ids == alone.token_ids
    assert alone.complete.rule == common_pb2.RULE_COUPLED
    assert "same seed" in alone.complete.exactness
    other.cancel()


async def test_at_temperature_0_ratio_is_plain_decoding(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    await cluster.pair(table_target, table_draft)
    reply = await cluster.generate([1, 2, 3], rule=Rule.RATIO, temperature=0.0, max_tokens=30)
    assert reply.token_ids == script.continue_text((1, 2, 3), max_len=33)
    assert "plain decoding" in reply.complete.exactness


async def test_the_operator_chooses_the_rule_of_requests_that_name_none(
    cluster: Cluster, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    await cluster.coordinate(speculation={"rule": "ratio"}, drafter={"siblings": 2})
    await cluster.pair(table_target, table_draft)
    reply = await cluster.generate([1, 2, 3], mode="sd", temperature=0.7, max_tokens=30)
    assert reply.complete.rule == common_pb2.RULE_RATIO
    assert reply.num_accepted > 0
    coupled = await cluster.generate([1, 2, 3], rule=Rule.COUPLED, temperature=0.7, max_tokens=30)
    assert coupled.complete.rule == common_pb2.RULE_COUPLED


async def test_the_law_is_the_targets_for_texts_that_move_to_another_verifier(
    cluster: Cluster,
) -> None:
    """C1, C4: drained in the middle, over and over, under a draft turned around."""
    await cluster.coordinate(drafter={"siblings": 2})

    def logits_of(text: Prefix) -> list[float]:
        return list(LOGITS[text[-1]].tolist())

    def opposed(text: Prefix) -> list[float]:
        return [-each for each in logits_of(text)]

    names = ("verifier-0", "verifier-1")
    for name in names:
        target = load_table(logits_of, name="law", vocab_size=VOCAB_SIZE, forward_s=0.002)
        await cluster.verify(target, name=name)
    await cluster.draft(load_table(opposed, vocab_size=VOCAB_SIZE))
    texts: list[tuple[int, ...]] = []
    for index in range(4):
        fields = {"rule": Rule.RATIO, "n": 32, "max_tokens": 24, "ignore_eos": True}
        answers: defaultdict[int, list[int]] = defaultdict(list)
        is_moved = False
        async for response in cluster.call([3], **fields):
            answers[response.delta.index] += response.delta.token_ids
            if not is_moved:
                here, there = names[index % 2], names[1 - index % 2]
                await drain(cluster, there, undo=True)
                await drain(cluster, here)
                is_moved = True
        texts += [tuple(answers[choice]) for choice in range(32)]
    assert {len(text) for text in texts} == {24}
    assert p_of(texts) > ALPHA
    moves = {each.reason: each.count for each in (await cluster.status()).moves}
    assert moves["drain"] > len(texts) / 4, "this is about texts that move"
