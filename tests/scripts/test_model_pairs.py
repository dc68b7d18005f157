"""The committed pairs: complete, unaltered, small enough, and as good as their manifests say."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from scripts.file_digests import MANIFEST_NAME, file_digests

MODELS = Path(__file__).resolve().parents[2] / "models"
PAIRS = ("tales", "pystd")
FOLDERS = tuple(f"{pair}/{role}" for pair in PAIRS for role in ("target", "draft"))
MAX_BYTES = 32_000_000

pytestmark = pytest.mark.skipif(
    not all((MODELS / pair / MANIFEST_NAME).exists() for pair in PAIRS),
    reason="the model pairs are not built: see models/README.md",
)


def manifest(pair: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((MODELS / pair / MANIFEST_NAME).read_text("utf-8"))
    return loaded


@pytest.mark.parametrize("pair", PAIRS)
def test_manifest_names_every_file_and_its_digest(pair: str) -> None:
    assert manifest(pair)["sha256"] == file_digests(MODELS / pair)


def test_all_four_models_are_small_enough_to_commit() -> None:
    num_bytes = sum(path.stat().st_size for path in MODELS.rglob("*") if path.is_file())
    assert num_bytes < MAX_BYTES


@pytest.mark.parametrize("pair", PAIRS)
def test_draft_and_target_share_one_tokenizer(pair: str) -> None:
    target, draft = (MODELS / pair / role / "tokenizer.json" for role in ("target", "draft"))
    assert target.read_bytes() == draft.read_bytes()


@pytest.mark.parametrize("pair", PAIRS)
def test_vocabulary_is_no_larger_than_the_models(pair: str) -> None:
    tokenizer = Tokenizer.from_file(str(MODELS / pair / "draft" / "tokenizer.json"))
    config = json.loads((MODELS / pair / "draft" / "config.json").read_text("utf-8"))
    assert tokenizer.get_vocab_size() == config["vocab_size"]


@pytest.mark.parametrize("pair", PAIRS)
def test_every_byte_survives_the_tokenizer(pair: str) -> None:
    tokenizer = Tokenizer.from_file(str(MODELS / pair / "target" / "tokenizer.json"))
    text = "".join(map(chr, range(0x800))) + "€😀\r\n\t  trailing  "
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@settings(max_examples=50, deadline=None)
@given(text=st.text())
@pytest.mark.parametrize("pair", PAIRS)
def test_any_prompt_survives_the_tokenizer(pair: str, text: str) -> None:
    tokenizer = Tokenizer.from_file(str(MODELS / pair / "draft" / "tokenizer.json"))
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_tales_draft_is_accepted_often() -> None:
    figures = manifest("tales")["figures"]
    assert figures["greedy_acceptance"] >= 0.75
    assert figures["target_entropy"] > 0.2


def test_pystd_is_the_harder_pair() -> None:
    figures = manifest("pystd")["figures"]
    assert 0.65 <= figures["greedy_acceptance"] <= 0.80
    assert figures["target_entropy"] >= 1.5
