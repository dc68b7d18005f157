"""Who can be found by whom in the logs, and what must not be."""

import logging
from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import LogCapture

from ssd.engine.loading import LoadedModel
from ssd.v1 import generation_pb2_grpc
from tests.services.cluster import Cluster, read, request_of

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
METADATA = (("traceparent", f"00-{TRACE_ID}-b7ad6b7169203331-01"),)
PROMPT = "a secret of mine"


@pytest.fixture
def lines() -> Iterator[LogCapture]:
    captured = LogCapture()
    before = structlog.get_config()
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, captured],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        cache_logger_on_first_use=False,
    )
    yield captured
    structlog.configure(**before)


async def generate(cluster: Cluster) -> str:
    stub = generation_pb2_grpc.GenerationServiceStub(cluster.channel)
    reply = await read(stub.Generate(request_of(PROMPT, max_tokens=20), metadata=METADATA))
    return str(reply.complete.request_id)


async def test_a_requests_lines_carry_trace_session_and_round(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel, lines: LogCapture
) -> None:
    await cluster.pair(target, draft)
    request_id = await generate(cluster)
    rounds = [each for each in lines.entries if each["event"] == "round done"]
    assert rounds
    ended = [each for each in lines.entries if each["event"] == "request ended"]
    assert [each["session_id"] for each in ended] == [request_id]
    assert ended[0]["trace_id"] == TRACE_ID
    assert {each["trace_id"] for each in rounds} == {TRACE_ID}
    assert all(each["session_id"].endswith(request_id) and each["round_id"] for each in rounds)


async def test_the_log_says_why_and_how_often_nothing_was_drafted(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel, lines: LogCapture
) -> None:
    await cluster.coordinate()
    await cluster.verify(target)
    await cluster.generate("so", mode="sd", max_tokens=6, ignore_eos=True)
    await cluster.draft(draft)
    reply = await cluster.generate("so", mode="sd", max_tokens=20, ignore_eos=True)
    alone, drafted = [each for each in lines.entries if each["event"] == "request ended"]
    assert alone["plain_rounds"] == {"no_drafter": 6}
    assert drafted["plain_rounds"] == dict(reply.complete.figures.plain_rounds)
    assert sum(drafted["plain_rounds"].values()) < drafted["rounds"]


async def test_no_prompt_is_logged_unless_asked(
    cluster: Cluster, target: LoadedModel, lines: LogCapture
) -> None:
    await cluster.coordinate()
    await cluster.verify(target)
    await generate(cluster)
    assert PROMPT not in str(lines.entries)


async def test_prompts_are_logged_when_asked(
    cluster: Cluster, target: LoadedModel, lines: LogCapture
) -> None:
    await cluster.coordinate(logging={"prompts": True})
    await cluster.verify(target)
    await generate(cluster)
    ended = next(each for each in lines.entries if each["event"] == "request ended")
    assert ended["prompt"] == PROMPT
