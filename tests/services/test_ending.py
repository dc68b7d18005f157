"""Where a text ends: the length limit, stop tokens inside accepted paths, the context."""

import pytest

from ssd.engine.loading import LoadedModel
from ssd.v1 import common_pb2
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table, saying
from tests.services.cluster import Cluster, refusal_of
from tests.services.test_metrics import scrape_coordinator, scrape_worker

STOP = common_pb2.FINISH_REASON_STOP
LENGTH = common_pb2.FINISH_REASON_LENGTH
PROMPT = (1, 2, 3)
DEPTH = 8


@pytest.fixture
async def sure(cluster: Cluster) -> Cluster:
    """Everything drafted is accepted; the text counts up from its position."""
    text = [position % 12 for position in range(512)]
    for_each = [load_table(saying(text, vocab_size=12), name="counting") for _ in range(2)]
    await cluster.coordinate(
        verifier={"max_tree_nodes": DEPTH}, drafter={"max_depth": DEPTH, "sd_depth": DEPTH}
    )
    await cluster.pair(*for_each)
    return cluster


async def test_max_tokens_is_exact_with_everything_accepted(sure: Cluster) -> None:
    """A3."""
    for mode in ("ssd", "sd", "ar"):
        for max_tokens in range(1, DEPTH + 3):
            reply = await sure.generate(PROMPT, temperature=0.0, mode=mode, max_tokens=max_tokens)
            expected = tuple(position % 12 for position in range(3, 3 + max_tokens))
            assert reply.token_ids == expected
            assert reply.num_tokens == len(reply.token_ids) == max_tokens
            assert reply.complete.finish_reason == LENGTH
            assert reply.complete.usage.prompt_tokens == 3
    await sure.until_freed()


async def test_a_stop_token_anywhere_in_an_accepted_path_ends_the_text_there(
    sure: Cluster,
) -> None:
    """A1, A2: stop index by limit, the earlier of the two wins; what is later counts nowhere."""
    num_tokens = 0
    for mode in ("ssd", "sd"):
        for stop in range(3, 11):
            for max_tokens in (2, 4, 20):
                reply = await sure.generate(
                    PROMPT,
                    temperature=0.0,
                    mode=mode,
                    max_tokens=max_tokens,
                    stop_token_ids=[stop],
                )
                num_until_stop = stop - 2
                is_stopped = num_until_stop <= max_tokens
                assert reply.token_ids == tuple(range(3, 12))[: min(num_until_stop, max_tokens)]
                assert reply.complete.finish_reason == (STOP if is_stopped else LENGTH)
                num_tokens += reply.num_tokens
    await sure.until_freed()
    coordinator, verifier = await scrape_coordinator(sure), await scrape_worker(sure, "verifier-0")
    assert coordinator.value("ssd_generation_tokens_total") == num_tokens
    assert verifier.total("ssd_committed_tokens_total") == num_tokens


async def test_the_models_own_end_token_stops_unless_ignored(
    cluster: Cluster, script: ScriptedModel
) -> None:
    text = script.continue_text(PROMPT, max_len=43)
    end = text[6]
    target = load_table(agreeing(script), name="with-end", eos_token_ids=(end,))
    await cluster.pair(target, load_table(agreeing(script)))
    stopped = await cluster.generate(PROMPT, temperature=0.0, max_tokens=40)
    ignoring = await cluster.generate(PROMPT, temperature=0.0, max_tokens=40, ignore_eos=True)
    assert stopped.token_ids == text[: text.index(end) + 1]
    assert stopped.complete.finish_reason == STOP
    assert ignoring.token_ids == text


async def test_unset_max_tokens_runs_to_the_end_of_the_context(
    cluster: Cluster, script: ScriptedModel
) -> None:
    """A6, F2: the draft depth shrinks on the way."""
    for_each = [load_table(agreeing(script), name="short", context_len=40) for _ in range(2)]
    await cluster.pair(*for_each)
    for mode in ("ssd", "sd", "ar"):
        reply = await cluster.generate(PROMPT, temperature=0.0, mode=mode)
        assert reply.token_ids == script.continue_text(PROMPT, max_len=40)
        assert reply.complete.finish_reason == LENGTH
    await cluster.until_freed()


async def test_prompts_near_the_context(cluster: Cluster, script: ScriptedModel) -> None:
    """F2: one token fits after context - 1; context and context + 1 are refused."""
    for_each = [load_table(agreeing(script), name="short", context_len=40) for _ in range(2)]
    await cluster.pair(*for_each)
    fitting = tuple(index % 12 for index in range(39))
    reply = await cluster.generate(fitting, temperature=0.0)
    assert reply.token_ids == script.continue_text(fitting, max_len=40)
    for extra in (1, 2):
        _, details = await refusal_of(cluster.generate((*fitting, *range(extra))))
        assert f"{39 + extra} tokens" in details
        assert "context of 40" in details
    _, details = await refusal_of(cluster.generate(fitting, max_tokens=2))
    assert "max_tokens" in details


async def test_a_default_for_max_tokens_bounds_requests_that_name_none(
    cluster: Cluster, table_target: LoadedModel
) -> None:
    await cluster.coordinate(coordinator={"port": 0, "default_max_tokens": 5})
    await cluster.verify(table_target)
    assert (await cluster.generate(PROMPT)).num_tokens == 5
    assert (await cluster.generate(PROMPT, max_tokens=7)).num_tokens == 7
    assert (await cluster.generate([1] * 510)).num_tokens == 2
