"""What `ssd advise` says of known pairs, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ssd.advise import (
    DEVICES,
    Advice,
    PlacedModel,
    Question,
    Workload,
    advise,
    describe,
    expected_tokens,
    shape_of,
)
from ssd.cli.main import app
from ssd.simulate.paper import PAIRS
from tests.advise import configurations
from tests.advise.configurations import write

QUESTION = Question(device=DEVICES["h100"])
PAPER = {
    "Llama 3 70B / 1B": (configurations.LLAMA_70B, configurations.LLAMA_1B),
    "Qwen3 32B / 0.6B": (configurations.QWEN_32B, configurations.QWEN_06B),
}


def _advice(tmp_path: Path, target: Any, draft: Any, **changes: Any) -> Advice:
    models = [
        describe(write(tmp_path / role, values))
        for role, values in (("target", target), ("draft", draft))
        if values is not None
    ]
    return advise(replace(QUESTION, **changes), models[0], models[1] if models[1:] else None)


def _against(advice: Advice) -> str:
    return "; ".join(reason.words for reason in advice.reasons if not reason.is_for)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_papers_forwards_follow_from_the_data_sheet(pair: Any) -> None:
    """Targets on four H100s, drafts on one; the draft's step is as the reproduction measured it."""
    target, draft = (shape_of(pair.name, values) for values in PAPER[pair.name])
    device = DEVICES["h100"]
    plain = device.forward_s(
        num_bytes=2 * target.num_read(1),
        operations=0.0,
        num_layers=target.num_layers,
        spread=4,
    )
    step = device.forward_s(
        num_bytes=2 * draft.num_read(1), operations=0.0, num_layers=draft.num_layers
    )
    assert plain == pytest.approx(1.0 / pair.plain, rel=0.1)
    assert step == pytest.approx(pair.step_s, rel=0.1)


def test_expected_tokens_are_the_geometric_sum() -> None:
    assert expected_tokens(0.8, 4) == pytest.approx((1 - 0.8**5) / (1 - 0.8))
    assert expected_tokens(0.5, 1) == 1.5


def test_a_large_target_for_code_is_worth_it(tmp_path: Path) -> None:
    advice = _advice(
        tmp_path,
        configurations.QWEN_32B,
        configurations.QWEN_06B,
        workload=Workload.CODE,
        gpu_hour_price=3.0,
    )
    ar, sd, ssd = advice.speeds
    assert 1.3 < advice.speed_up(sd) < advice.speed_up(ssd) < 5
    assert _against(advice) == ""
    assert len(advice.reasons) == 4
    assert advice.verdict.startswith("Speculate with mode ssd")
    assert ssd.per_device == pytest.approx(ssd.tokens_per_s / 2)
    assert ar.price_per_million(3.0) == pytest.approx(3.0 / 3600 / ar.tokens_per_s * 1e6)


def test_everything_that_speaks_against_is_said(tmp_path: Path) -> None:
    other = {**configurations.QWEN_06B, "model_type": "qwen2"}
    advice = _advice(
        tmp_path,
        configurations.LLAMA_1B,
        other,
        workload=Workload.CREATIVE,
        temperature=1.0,
        batch=64,
    )
    assert advice.best is advice.plain
    assert advice.verdict.startswith("Do not speculate here, because the target is small (1.2B")
    for words in ("above 0.7", "64 texts at once", "creative", "another model family", "under 0.5"):
        assert words in _against(advice)
    assert "acceptance times depth is 0.3" in _against(advice)
    assert not any(reason.is_for for reason in advice.reasons)


def test_memory_adds_up(tmp_path: Path) -> None:
    placed = PlacedModel(
        shape_of("8B", configurations.LLAMA_8B), DEVICES["h100"], "bf16", 4, 8192, tree_slots=9
    )
    assert placed.memory.weights == 2 * 8_030_261_248
    assert placed.memory.kv_per_token == 2 * 2 * 32 * 8 * 128
    assert placed.memory.kv == 4 * 8192 * placed.memory.kv_per_token
    assert placed.memory.trees == 4 * 9 * placed.memory.kv_per_token
    assert placed.num_devices == 1
    assert replace(placed, batch=64).num_devices == 2
    advice = _advice(tmp_path, configurations.LLAMA_70B, configurations.LLAMA_1B)
    assert (advice.target.num_devices, advice.speeds[1].num_devices) == (2, 3)
    assert any("runs a model on one" in note for note in advice.notes)


def test_known_acceptance_replaces_the_assumed_one(tmp_path: Path) -> None:
    pair = (configurations.LLAMA_8B, configurations.LLAMA_1B)
    known = _advice(tmp_path / "known", *pair, acceptance=0.9)
    assumed = _advice(tmp_path / "assumed", *pair, temperature=0.5)
    assert known.drafted is not None
    assert assumed.drafted is not None
    assert known.drafted.tokens_per_round > assumed.drafted.tokens_per_round
    assert known.speeds[2].tokens_per_s > assumed.speeds[2].tokens_per_s
    assert any("is assumed" in note for note in assumed.notes)
    assert not any("is assumed" in note for note in known.notes)


def test_without_a_draft_there_is_advice_on_the_target(tmp_path: Path) -> None:
    advice = _advice(tmp_path, configurations.LLAMA_8B, None)
    assert [speed.mode for speed in advice.speeds] == ["ar"]
    assert "n-gram" in advice.verdict


def _invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["advise", *arguments])
    return result.exit_code, result.output


def test_the_embedded_pair_is_advised_on_as_json() -> None:
    code, said = _invoke("--target", "tales", "--device", "cpu-core", "--json", "--batch", "2")
    record = json.loads(said)
    assert code == 0
    assert record["memory"]["verifier"]["parameters"] == 6_164_736
    assert record["modes"].keys() == {"ar", "sd", "ssd"}
    assert record["modes"]["ssd"]["speed_up"] > 1.0
    assert record["expected_tokens_per_round"] > 1.0
    assert any("same cores" in note for note in record["notes"])


def test_the_table_names_price_reasons_and_notes() -> None:
    code, said = _invoke("--target", "tales", "--gpu-hour-price", "2.5", "--batch", "2")
    assert code == 0
    for words in ("1M tokens", "KV a", "against", "note: ", "expected per round: "):
        assert words in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--target", "./no-such"), "there is no model folder ./no-such"),
        (("--target", "no-such/model"), "nor a model no-such/model among the downloaded"),
        (("--target", "some.gguf"), "some.gguf has no config.json to count by"),
        (("--target", "tales", "--device", "abacus"), "--device must be one of b200, "),
        (("--target", "tales", "--dtype", "int3"), "--dtype must be one of fp64, "),
        (("--target", "tales", "--context", "9999"), "takes 4096 tokens, not 9999"),
        (("--target", "tales", "--draft", "pystd"), "draft cannot draft for target: id "),
        (("--target", "tales", "--self-layers", "9"), "target has 8 layers, not 9"),
        (("--target", "tales", "--draft", "tales", "--self-layers", "2"), "leave out --draft"),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_sentence(
    arguments: tuple[str, ...], sentence: str
) -> None:
    code, said = _invoke(*arguments)
    assert code == 2
    assert sentence in said
    assert said.startswith("error: ")


def test_a_model_of_the_hub_is_found_among_those_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its configuration is enough; weights need not be there."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    cached = tmp_path / "models--acme--small"
    write(cached / "snapshots" / "c0ffee", configurations.LLAMA_1B)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("c0ffee", encoding="utf-8")
    code, said = _invoke("--target", "acme/small", "--json")
    assert code == 0, said
    assert json.loads(said)["memory"]["verifier"]["parameters"] == 1_235_814_400


def test_first_layers_of_the_target_may_draft() -> None:
    code, said = _invoke("--target", "tales", "--self-layers", "2", "--json")
    record = json.loads(said)
    assert code == 0
    models = record["memory"]
    per_layer = (models["verifier"]["parameters"] - models["drafter"]["parameters"]) / 6
    assert models["verifier"]["kv_bytes_per_token"] == 4 * models["drafter"]["kv_bytes_per_token"]
    assert per_layer == 256 * (4 * 64) * 2 + 2 * 256 * 2 * 64 + 3 * 256 * 704 + 2 * 256
    assert any("trained for it" in note for note in record["notes"])


def test_another_family_without_count_is_refused(tmp_path: Path) -> None:
    code, said = _invoke("--target", write(tmp_path / "m", {"model_type": "mamba"}))
    assert code == 2
    assert "its model_type is mamba" in said
