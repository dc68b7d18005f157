"""`rule` in a request: who gets which rule, and what is said about it."""

import pytest

from ssd.core.rule import Rule
from ssd.engine.loading import LoadedModel
from ssd.v1 import common_pb2
from tests.models.scripted_model import ScriptedModel
from tests.services.cluster import Cluster

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
