"""Every drafter behind the services: the same text, its own figures, and what a request may ask."""

from typing import Any

import pytest

from ssd.wire.flight_file import unpack
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table, opposing
from tests.models.tiny_pair import TinyPair
from tests.services.cluster import Cluster, read, refusal_of, until
from tests.services.drafting import NAMED, serve
from tests.services.test_flight_records import dumped

PROMPT = "Once upon a time, once upon a time, once upon a "


@pytest.mark.parametrize("name", NAMED)
async def test_greedy_and_seeded_texts_are_those_of_plain_decoding(
    cluster: Cluster, tiny_pair: TinyPair, name: str
) -> None:
    await serve(cluster, name, tiny_pair.target, tiny_pair.draft)
    num_accepted = num_proposed = 0
    for fields in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 7}):
        replies = {
            mode: await cluster.generate(PROMPT, mode=mode, max_tokens=64, **fields)
            for mode in ("ar", "sd", "ssd")
        }
        assert replies["ssd"].token_ids == replies["sd"].token_ids == replies["ar"].token_ids
        assert replies["ar"].num_accepted == 0
        for mode in ("sd", "ssd"):
            num_accepted += replies[mode].num_accepted
            num_proposed += replies[mode].complete.figures.num_proposed
    assert num_proposed > 0
    assert num_accepted > 0 or name == "self"  # one of two random layers says nothing
    kinds = {kind for kind in ("model", "self", "ngram") if kind in name} or {"ngram"}
    assert set(replies["ssd"].complete.figures.drafters) >= kinds
    await cluster.until_freed()


@pytest.mark.parametrize("name", ["ngram", "ngram beside"])
async def test_an_n_gram_alone_may_draft_under_rule_ratio(
    cluster: Cluster, tiny_pair: TinyPair, name: str
) -> None:
    await serve(cluster, name, tiny_pair.target, tiny_pair.draft)
    fields: dict[str, Any] = {"rule": "ratio", "temperature": 0.5, "seed": 3, "max_tokens": 64}
    waiting = await cluster.generate(PROMPT, mode="sd", **fields)  # ahead, drafts may all be late
    assert 0 < waiting.num_accepted < waiting.complete.figures.drafters["ngram"].num_proposed
    assert (await cluster.generate(PROMPT, **fields)).num_tokens == 64


async def test_a_request_says_who_may_draft_for_it(cluster: Cluster, tiny_pair: TinyPair) -> None:
    await serve(cluster, "model and ngram", tiny_pair.target, tiny_pair.draft)
    for kinds in (["model"], ["ngram"], ["model", "ngram"]):
        reply = await cluster.generate(
            PROMPT, mode="sd", temperature=0.0, max_tokens=48, speculation={"drafters": kinds}
        )
        figures = reply.complete.figures.drafters
        assert set(figures) == set(kinds)
        assert figures[kinds[-1]].num_proposed > 0
        assert all("nodes accepted" in each.why for each in figures.values())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"speculation": {"drafters": ["oracle"]}}, "'oracle' is no drafter"),
        ({"speculation": {"drafters": ["self"]}}, "self does not work here"),
        ({"rule": "ratio"}, "rule ratio takes one drafter, not model and ngram"),
    ],
)
async def test_what_cannot_draft_is_refused_by_name(
    cluster: Cluster, tiny_pair: TinyPair, fields: dict[str, Any], words: str
) -> None:
    await serve(cluster, "model and ngram", tiny_pair.target, tiny_pair.draft)
    code, message = await refusal_of(read(cluster.call(PROMPT, max_tokens=4, **fields)))
    assert "INVALID_ARGUMENT" in str(code)
    assert words in message
    reply = await cluster.generate(
        PROMPT, rule="ratio", max_tokens=4, speculation={"drafters": ["model"]}
    )
    assert reply.num_tokens == 4


async def test_an_adversary_is_paused_and_probed_for_its_request(cluster: Cluster) -> None:
    script = ScriptedModel(seed=3)
    await cluster.coordinate()
    await cluster.verify(load_table(agreeing(script), name="target", forward_s=0.004))
    drafter = await cluster.draft(load_table(opposing(script), name="draft"))
    reply = await cluster.generate([1, 2, 3], temperature=0.0, max_tokens=300)
    model = reply.complete.figures.drafters["model"]
    assert model.num_paused_rounds > 150
    assert model.num_probes >= 1
    assert "did not pay" in model.why
    assert reply.complete.figures.plain_rounds["paused"] == model.num_paused_rounds
    await until(lambda: drafter.ask(lambda: not drafter.drafter.sessions))


async def test_a_model_that_nobody_believes_is_not_asked_for_a_new_text(cluster: Cluster) -> None:
    """Its record replays like any other: what all sessions knew is not in it, what followed is."""
    script = ScriptedModel(seed=3)
    await cluster.coordinate()
    await cluster.verify(load_table(agreeing(script), name="target", forward_s=0.004))
    await cluster.draft(load_table(opposing(script), name="draft"))
    for number in range(8):
        reply = await cluster.generate(
            [1, 2, number], temperature=0.0, max_tokens=100, request_id=f"r{number}"
        )
        assert reply.token_ids == script.continue_text((1, 2, number), max_len=103)
    model = reply.complete.figures.drafters["model"]
    assert (model.num_proposed, model.num_probes) == (0, 0)
    assert model.num_paused_rounds >= 98
    for role, record in (await dumped(cluster, "r7", with_tokens=True)).items():
        assert unpack(record).replay().difference is None, role
