"""`ssd measure` against a service that runs."""

import asyncio
import json
from pathlib import Path

from typer.testing import CliRunner

from ssd.cli.main import app
from ssd.engine.loading import LoadedModel, load_model
from tests.models.tiny_pair import TinyPair
from tests.services.cluster import Cluster

PROMPTS = ("Once upon a time", "There was a service")


async def _measure(cluster: Cluster, tmp_path: Path, *options: str) -> tuple[int, str]:
    file = tmp_path / "mine.txt"
    file.write_text("\n".join(PROMPTS), encoding="utf-8")
    arguments = [
        *("measure", "--prompts", str(file), "--address", cluster.address),
        *("--out", str(tmp_path / "out"), "--max-tokens", "24", *options),
    ]
    said = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    return said.exit_code, said.output


async def test_every_prompt_goes_every_way_and_no_text_changes(
    cluster: Cluster, tiny_pair: TinyPair, tmp_path: Path
) -> None:
    await cluster.pair(*(load_model(str(tiny_pair.target), dtype="fp64") for _ in range(2)))
    bounds = ("--drafter", "model", "--max-nodes", "2", "--max-nodes", "4")
    code, said = await _measure(cluster, tmp_path, "--json", *bounds)
    assert code == 0, said
    report = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    printed, _ = json.JSONDecoder().raw_decode(said[said.index("{\n") :])
    assert printed == report  # the services of this process log to the same place
    assert report["identical_to_ar"]
    ways = {(each["way"], each["temperature"]): each for each in report["ways"]}
    names = ("ar", *(f"{mode} model {n} nodes" for n in (2, 4) for mode in ("sd", "ssd")))
    assert set(ways) == {(way, temperature) for way in names for temperature in (0.0, 1.0)}
    for (way, _), figures in ways.items():
        assert figures["num_prompts"] == 2
        assert 2 <= figures["num_tokens"] <= 48
        assert 0.0 < figures["verify_share"] <= 1.0
        if way.startswith("sd"):  # its draft is the target itself
            assert figures["acceptance"] == 1.0
            assert figures["draft_share"] > 0.0
            assert figures["expected_speed_up"] > 0.0
    per_round = {way: figures["tokens_per_round"] for (way, _), figures in ways.items()}
    assert per_round["sd model 4 nodes"] > per_round["sd model 2 nodes"]
    assert [each["temperature"] for each in report["recommendations"]] == [0.0, 1.0]
    assert (tmp_path / "out" / "measured.png").stat().st_size > 5000


async def test_the_table_and_the_words_go_to_the_terminal(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel, tmp_path: Path
) -> None:
    await cluster.pair(target, draft)
    code, said = await _measure(cluster, tmp_path, "--temperature", "0.7", "--limit", "1")
    assert code == 0, said
    for words in ("times", "pected", "verify", "temperature 0.7: ", "report.json", "measured.png"):
        assert words in said


async def test_what_belongs_to_a_service_is_not_asked_of_one_that_runs(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel, tmp_path: Path
) -> None:
    await cluster.pair(target, draft)
    code, said = await _measure(cluster, tmp_path, "--target", "tales")
    assert code == 2
    assert "models.target belongs to the service at" in said
