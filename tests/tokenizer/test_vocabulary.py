"""Vocabularies are compared id by id."""

import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel

from ssd.core.errors import ConfigError
from ssd.tokenizer.vocabulary import Vocabulary

TARGET = Vocabulary({0: "<eos>", 1: "a", 2: "b", 3: "c"}, frozenset({0}))


def test_equal_vocabularies_do_not_differ() -> None:
    same = Vocabulary({3: "c", 2: "b", 1: "a", 0: "<eos>"}, frozenset({0}))
    assert TARGET.first_difference(same) is None
    assert TARGET.digest == same.digest


def test_the_lowest_differing_id_is_named() -> None:
    draft = Vocabulary({0: "<eos>", 1: "a", 2: "x", 3: "y"}, frozenset({0}))
    assert TARGET.first_difference(draft) == 'id 2 is "b" in the target and "x" in the draft'
    assert TARGET.digest != draft.digest


def test_a_token_on_one_side_only_is_a_difference() -> None:
    draft = Vocabulary({0: "<eos>", 1: "a", 2: "b"}, frozenset({0}))
    assert TARGET.first_difference(draft) == 'id 3 is "c" in the target and no token in the draft'
    assert draft.first_difference(TARGET) == 'id 3 is no token in the target and "c" in the draft'


def test_special_tokens_alone_are_no_difference() -> None:
    draft = Vocabulary({0: "</s>", 1: "a", 2: "b", 3: "c", 4: "<pad>"}, frozenset({0, 4}))
    assert TARGET.first_difference(draft) is None
    assert TARGET.digest == draft.digest
    assert TARGET.special_digest != draft.special_digest


def test_a_special_token_in_place_of_an_ordinary_one_is_a_difference() -> None:
    draft = Vocabulary({0: "<eos>", 1: "a", 2: "b", 3: "c"}, frozenset({0, 3}))
    difference = TARGET.first_difference(draft)
    assert difference == 'id 3 is "c" in the target and the special token "c" in the draft'
    assert TARGET.digest != draft.digest


def test_tokens_are_read_from_tokenizer_json(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer = Tokenizer(WordLevel({"a": 0, 'é"': 1}, unk_token="a"))
    tokenizer.add_tokens([AddedToken("word")])
    tokenizer.add_special_tokens([AddedToken("<eos>", special=True)])
    tokenizer.save(str(path))
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.tokens == {0: "a", 1: 'é"', 2: "word", 3: "<eos>"}
    assert vocabulary.special_ids == {3}


def test_ids_without_a_token_are_no_difference() -> None:
    # What a model of 72 rows and one of 64 have in common is the tokenizer.
    padding = Vocabulary({**TARGET.tokens, 70: "<reserved>"}, TARGET.special_ids | {70})
    assert TARGET.first_difference(padding) is None
    assert padding.first_difference(TARGET) is None


@pytest.mark.parametrize("content", [None, "", "{}", '{"model": 3}'])
def test_what_is_no_tokenizer_is_a_config_error(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        Vocabulary.from_file(path)


def test_special_ids_need_a_token() -> None:
    with pytest.raises(ValueError, match="without a token"):
        Vocabulary({0: "a"}, frozenset({1}))


def test_importing_it_loads_no_model_library() -> None:
    check = (
        "import sys, ssd.tokenizer;"
        "sys.exit(' '.join({'torch', 'transformers', 'numpy', 'ray'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == ""
