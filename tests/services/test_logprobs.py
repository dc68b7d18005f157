"""E: log-probabilities are the target's, of the right rows, one per delivered token, in every mode.

Also what else a request may ask for: the prompt back, and bounds on drafting.
"""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from ssd.core.sampling_params import SamplingParams
from ssd.engine.loading import LoadedModel
from ssd.v1 import generation_pb2, generation_pb2_grpc
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import VOCAB_SIZE, agreeing, load_table, saying
from tests.sampling.test_text_edits import slow_edit
from tests.services.cluster import Cluster, request_of

PROMPT = (1, 2, 3, 4, 5, 6, 7, 8)
NUM_TOKENS = 24


def reference(
    script: ScriptedModel, prompt: Sequence[int], output: Sequence[int], params: SamplingParams
) -> list[list[float]]:
    """Log-softmax of the processed logits before each output token, from the definition."""
    rows = []
    for end in range(len(output)):
        logits = agreeing(script)((*prompt, *output[:end]))
        edited = slow_edit(logits, params, output[:end], prompt)
        rows.append(torch.tensor(edited, dtype=torch.float64).log_softmax(dim=0).tolist())
    return rows


async def responses_of(
    cluster: Cluster, prompt: str | Sequence[int], **fields: Any
) -> list[generation_pb2.GenerateResponse]:
    stub = generation_pb2_grpc.GenerationServiceStub(cluster.channel)
    return [each async for each in stub.Generate(request_of(prompt, **fields))]


def check(
    entries: Sequence[generation_pb2.TokenLogprob],
    token_ids: Sequence[int],
    rows: Sequence[Sequence[float]],
    *,
    num_top: int,
) -> None:
    assert [each.token_id for each in entries] == list(token_ids)
    for each, row in zip(entries, rows, strict=True):
        assert each.logprob == pytest.approx(row[each.token_id], abs=1e-12)
        best = sorted(row, reverse=True)[:num_top]
        assert [top.logprob for top in each.top] == pytest.approx(best, abs=1e-12)
        assert all(top.logprob == pytest.approx(row[top.token_id], abs=1e-12) for top in each.top)


@pytest.mark.parametrize("mode", ["ssd", "sd", "ar"])
async def test_they_are_the_targets_own(
    cluster: Cluster,
    script: ScriptedModel,
    table_target: LoadedModel,
    table_draft: LoadedModel,
    mode: str,
) -> None:
    """Penalties, bias and bans are applied; temperature and cuts are not."""
    await cluster.pair(table_target, table_draft)
    fields: list[tuple[SamplingParams, dict[str, Any]]] = [
        (SamplingParams(), {"temperature": 0.0}),
        (SamplingParams(), {"temperature": 0.3, "top_k": 2, "seed": 3}),
        (
            SamplingParams(
                presence_penalty=0.7, logit_bias=((4, 2.0),), banned_sequences=((9,), (4, 1))
            ),
            {
                "seed": 4,
                "presence_penalty": 0.7,
                "logit_bias": {4: 2.0},
                "bad_token_ids": [{"token_ids": [9]}, {"token_ids": [4, 1]}],
            },
        ),
    ]
    for params, chosen in fields:
        responses = await responses_of(
            cluster,
            PROMPT,
            mode=mode,
            max_tokens=NUM_TOKENS,
            logprobs=True,
            top_logprobs=VOCAB_SIZE,
            **chosen,
        )
        entries = [entry for each in responses for entry in each.delta.logprobs]
        token_ids = [token_id for each in responses for token_id in each.delta.token_ids]
        assert len(entries) == NUM_TOKENS
        rows = reference(script, PROMPT, token_ids, params)
        check(entries, token_ids, rows, num_top=VOCAB_SIZE)
        if params.banned_sequences:
            banned = [top.logprob for e in entries for top in e.top if top.token_id == 9]
            assert banned == [-math.inf] * NUM_TOKENS
    await cluster.until_freed()


async def test_prompt_logprobs_cover_all_but_the_first_token_in_any_chunks(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    await cluster.coordinate(verifier={"max_rows": 3, "max_tree_nodes": 2})
    await cluster.pair(table_target, table_draft)
    for _ in range(2):  # the second time nothing of the prompt may be taken from a cache
        responses = await responses_of(
            cluster, PROMPT, seed=1, max_tokens=3, prompt_logprobs=2, presence_penalty=2.0
        )
        prompt = responses[0].prompt
        assert tuple(prompt.token_ids) == PROMPT
        assert prompt.text
        rows = reference(script, PROMPT[:1], PROMPT[1:], SamplingParams())
        check(prompt.logprobs, PROMPT[1:], rows, num_top=2)
        assert not any(each.HasField("prompt") for each in responses[1:])
        assert not any(each.delta.logprobs for each in responses)
    single = await responses_of(cluster, PROMPT[:1], max_tokens=1, prompt_logprobs=0)
    assert list(single[0].prompt.token_ids) == [1]
    assert not single[0].prompt.logprobs
    await cluster.until_freed()


async def test_a_stop_string_cuts_text_ids_and_logprobs_at_one_place(
    cluster: Cluster,
) -> None:
    """A4, A2."""
    text = [position % 12 for position in range(64)]
    await cluster.coordinate(verifier={"max_tree_nodes": 8}, drafter={"max_depth": 8})
    for_each = [load_table(saying(text, vocab_size=12), name="counting") for _ in range(2)]
    await cluster.pair(*for_each)
    whole = await cluster.generate(PROMPT, temperature=0.0, max_tokens=20)
    for length in range(1, 8):
        stop = whole.text[length - 1 : length + 1]
        responses = await responses_of(
            cluster, PROMPT, temperature=0.0, max_tokens=20, stop=[stop], logprobs=True
        )
        ids = [token_id for each in responses for token_id in each.delta.token_ids]
        entries = [entry.token_id for each in responses for entry in each.delta.logprobs]
        assert ids == entries == list(whole.token_ids[: length + 1])
        shown = "".join(each.delta.text for each in responses)
        assert shown == whole.text[: length - 1]
        complete = responses[-1].complete
        assert complete.usage.completion_tokens == len(ids)
        assert complete.stop_string == stop
    await cluster.until_freed()


async def test_echo_sends_the_prompt_first(cluster: Cluster, target: LoadedModel) -> None:
    await cluster.coordinate()
    await cluster.verify(target)
    responses = await responses_of(cluster, "héllo", echo=True, max_tokens=2, n=2)
    assert responses[0].prompt.text == "héllo" or responses[0].HasField("delta")
    assert [each.prompt.text for each in responses if each.HasField("prompt")] == ["héllo"]


async def test_several_answers_have_their_own_logprobs(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    await cluster.coordinate()
    await cluster.verify(table_target)
    responses = await responses_of(cluster, PROMPT, seed=1, n=3, max_tokens=5, logprobs=True)
    for index in range(3):
        mine = [each.delta for each in responses if each.delta.index == index]
        ids = [token_id for each in mine for token_id in each.token_ids]
        entries = [entry for each in mine for entry in each.logprobs]
        check(entries, ids, reference(script, PROMPT, ids, SamplingParams()), num_top=0)


@pytest.mark.parametrize("mode", ["ssd", "sd"])
async def test_a_request_may_bound_its_own_drafting(
    cluster: Cluster, script: ScriptedModel, mode: str
) -> None:
    target = load_table(agreeing(script), forward_s=0.004)
    await cluster.pair(target, load_table(agreeing(script)))
    fields: dict[str, Any] = {"mode": mode, "temperature": 0.0, "max_tokens": 40}
    free = await cluster.generate(PROMPT, include_rounds=True, **fields)
    assert max(each.num_accepted for each in free.complete.rounds) > 2
    for limits in ({"max_nodes": 2}, {"max_depth": 2}, {"max_nodes": 9, "max_depth": 2}):
        reply = await cluster.generate(PROMPT, include_rounds=True, speculation=limits, **fields)
        assert reply.token_ids == free.token_ids
        assert max(each.num_accepted for each in reply.complete.rounds) in (1, 2)
        if "max_nodes" in limits and mode == "ssd":
            most = limits["max_nodes"]
            assert max(each.num_proposed for each in reply.complete.rounds) <= most
    await cluster.until_freed()


async def test_the_complete_message_says_why_rounds_tested_no_draft(
    cluster: Cluster, script: ScriptedModel
) -> None:
    """Speculation is never off in silence."""
    await cluster.coordinate()
    await cluster.verify(load_table(agreeing(script)))
    alone = await cluster.generate(PROMPT, temperature=0.0, max_tokens=6)
    assert dict(alone.complete.figures.plain_rounds) == {"no_drafter": 6}
    await cluster.draft(load_table(agreeing(script)))
    plain = await cluster.generate(PROMPT, mode="ar", temperature=0.0, max_tokens=6)
    assert dict(plain.complete.figures.plain_rounds) == {"mode": 6}
    drafted = await cluster.generate(
        PROMPT, mode="sd", temperature=0.0, max_tokens=12, include_rounds=True
    )
    undrafted = [each for each in drafted.complete.rounds if not each.num_proposed]
    assert sum(drafted.complete.figures.plain_rounds.values()) == len(undrafted)
    assert len(undrafted) < drafted.complete.figures.num_rounds
