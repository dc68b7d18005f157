"""`ssd generate` and `ssd chat` against a service in this process."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner, Result

from ssd.cli.main import app
from ssd.engine.loading import LoadedModel
from ssd.tokenizer.chat_format import ChatFormat
from tests.services.cluster import Cluster

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No configuration of anybody's, and no log of the service in this process in the output."""
    monkeypatch.chdir(tmp_path)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()


async def run(cluster: Cluster, *arguments: str, said: str = "") -> Result:
    command, *rest = arguments
    whole = [command, *rest, "--address", cluster.address]
    return await asyncio.to_thread(CliRunner().invoke, app, whole, input=said)


async def test_generate_says_what_drafts_would_have_done(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    flags = ("--mode", "shadow", "--max-tokens", "30", "--seed", "4", "--ignore-eos")
    result = await run(cluster, "generate", "so", *flags)
    assert "mode shadow: would have been" in result.stderr
    record = json.loads((await run(cluster, "generate", "so", *flags, "--json")).stdout)
    assert record["figures"]["num_rounds"] == 30
    assert 1 <= record["shadow"]["num_rounds"] <= 30


async def test_generate_takes_every_parameter(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    expected = await cluster.generate(
        "so",
        max_tokens=20,
        min_tokens=3,
        temperature=0.8,
        top_p=0.95,
        top_k=50,
        min_p=0.01,
        repetition_penalty=1.1,
        presence_penalty=0.2,
        frequency_penalty=0.1,
        logit_bias={97: 1.5, 98: -2.0},
        bad_words=["q"],
        stop=["zz"],
        stop_token_ids=[1],
        seed=9,
    )
    flags = (
        "--max-tokens 20 --min-tokens 3 --temperature 0.8 --top-p 0.95 --top-k 50 --min-p 0.01 "
        "--repetition-penalty 1.1 --presence-penalty 0.2 --frequency-penalty 0.1 "
        "--logit-bias 97=1.5 --logit-bias 98=-2 --bad-word q --stop zz --stop-token-id 1 --seed 9 "
        "--max-nodes 3 --max-depth 2 --priority 1 --request-id mine --timeout 60 --echo "
        "--top-logprobs 2 --prompt-logprobs 1 -n 2 --json"
    )
    result = await run(cluster, "generate", "so", *flags.split())
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["token_ids"] == list(expected.token_ids)
    assert record["request_id"] == "mine"
    assert len(record["logprobs"]) == len(record["token_ids"])
    assert len(record["logprobs"][0]["top"]) == 2
    assert record["prompt"]["text"] == "so"
    assert len(record["prompt"]["logprobs"]) == 1
    assert len(record["texts"]) == 2
    plain = await run(cluster, "generate", "so", "--seed", "9", "--max-tokens", "5")
    assert plain.exit_code == 0
    assert "5 tokens, length, seed 9" in plain.output


async def test_generate_says_what_is_wrong_in_a_sentence(
    cluster: Cluster, target: LoadedModel
) -> None:
    await cluster.coordinate()
    await cluster.verify(target)
    for flags, words in (
        (["--top-p", "7"], "top_p must be above 0 and at most 1, not 7.0"),
        (["--logit-bias", "a=1"], "--logit-bias takes ID=BIAS"),
        (["--max-nodes", "0"], "speculation.max_nodes must be at least 1"),
        (["--api-key-file", "nowhere"], "cannot read nowhere"),
    ):
        result = await run(cluster, "generate", "so", *flags)
        assert result.exit_code in (1, 2)
        assert words in result.output
        assert "Traceback" not in result.output


async def test_chat_keeps_the_conversation_and_shows_the_speed(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(replace(target, chat=ChatFormat(TEMPLATE)), draft)
    flags = ("--max-tokens", "12", "--temperature", "0", "--system", "be brief")
    first = await cluster.generate(
        "<system>be brief<user>hi<assistant>", max_tokens=12, temperature=0.0
    )
    second = await cluster.generate(
        f"<system>be brief<user>hi<assistant>{first.text}<user>and<assistant>",
        max_tokens=12,
        temperature=0.0,
    )
    result = await run(cluster, "chat", *flags, said="hi\nand\n\n/new\nhi\n/quit\nnever\n")
    assert result.exit_code == 0, result.output
    assert result.stdout.count(first.text) >= 2
    assert second.text in result.stdout
    speeds = [line for line in result.output.splitlines() if "acceptance" in line]
    assert len(speeds) == 3
    assert all("tokens/s" in line and "first after" in line for line in speeds)


async def test_chat_with_a_model_that_cannot_says_so(cluster: Cluster, target: LoadedModel) -> None:
    await cluster.coordinate()
    await cluster.verify(target)
    result = await run(cluster, "chat", said="hi\n")
    assert result.exit_code == 1
    assert "chat template" in result.output
