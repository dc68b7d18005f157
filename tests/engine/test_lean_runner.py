"""The lean forward says what the reference says."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ssd.core.ids import KvId
from ssd.core.rows import RowGroup, Runner
from ssd.engine.lean_runner import LeanRunner, fits_lean_runner
from ssd.engine.projection import _multiplies_by_onednn, can_prepack
from ssd.engine.transformers_runner import TransformersRunner
from tests.engine.row_groups import chain, tree
from tests.engine.tiny_models import ARCHITECTURES, VOCAB_SIZE, tiny_model

FAMILIES = [
    name for name in ARCHITECTURES if name.startswith(("llama", "mistral", "qwen2", "qwen3"))
]
FAMILIES = [name for name in FAMILIES if not name.endswith("_moe")]

PROMPT = (5, 17, 3, 44, 60, 8, 8, 21, 33, 7, 12, 50)
CPU = torch.device("cpu")
needs_packing = pytest.mark.skipif(
    not can_prepack(torch.float32, CPU),
    reason="weights can be laid out anew neither for our loops nor for oneDNN",
)


@pytest.fixture(autouse=True)
def _nothing_is_too_small_to_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssd.engine.projection._WORTH_PACKING", 0)


def _lean(name: str, dtype: torch.dtype, *, prepack: bool = False) -> LeanRunner:
    return LeanRunner(tiny_model(name, dtype=dtype), prepack=prepack)


def _reference(name: str, dtype: torch.dtype) -> TransformersRunner:
    return TransformersRunner(tiny_model(name, dtype=dtype))


def _speak(runner: Runner[Tensor]) -> Tensor:
    """Prefill in chunks, another text, a tree in scattered slots, moves: all their logits."""
    past = range(12)
    steps: list[list[RowGroup]] = [
        [chain(PROMPT[:5])],
        [chain(PROMPT[5:], past=past[:5]), chain((1, 2, 3), session="b")],
        [
            tree((9, 10, 20, 30, 11), (-1, 0, -1, 0, 1), past=past, slots=(12, 40, 13, 70, 300)),
            chain((4,), session="b", past=range(3)),
        ],
        [chain((7,), past=range(15), moves=((40, 13), (300, 14), (13, 20)))],
    ]
    return torch.cat([runner.forward(step) for step in steps])


@pytest.mark.parametrize("name", FAMILIES)
def test_float64_equals_the_reference(name: str) -> None:
    lean, reference = _speak(_lean(name, torch.float64)), _speak(_reference(name, torch.float64))
    torch.testing.assert_close(lean, reference, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("prepack", [False, pytest.param(True, marks=needs_packing)])
def test_float32_equals_the_reference_up_to_rounding(name: str, prepack: bool) -> None:
    lean = _speak(_lean(name, torch.float32, prepack=prepack))
    reference = _speak(_reference(name, torch.float32))
    torch.testing.assert_close(lean, reference, rtol=1e-4, atol=1e-4 * float(reference.std()))


@pytest.mark.parametrize("prepack", [False, pytest.param(True, marks=needs_packing)])
def test_bfloat16_is_near_the_reference(prepack: bool) -> None:
    lean = _speak(_lean("llama", torch.bfloat16, prepack=prepack))
    reference = _speak(_reference("llama", torch.bfloat16))
    assert float((lean - reference).abs().mean() / reference.std()) < 0.02


@pytest.mark.parametrize("prepack", [False, pytest.param(True, marks=needs_packing)])
def test_company_changes_only_the_rounding(prepack: bool) -> None:
    runner = _lean("llama", torch.float32, prepack=prepack)
    runner.forward([chain(PROMPT)])
    group = chain((9,), past=range(12))
    alone = runner.forward([group])
    others = [chain(PROMPT[: 1 + number], session=str(number)) for number in range(6)]
    together = runner.forward([*others, group])[-1:]
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_rotary_table_grows_with_the_text() -> None:
    lean, reference = (
        make("llama 3.1 rope", torch.float64).forward([_distant()]) for make in (_lean, _reference)
    )
    torch.testing.assert_close(lean, reference, rtol=1e-10, atol=1e-10)


def _distant() -> RowGroup:
    near = chain(PROMPT)
    far = tuple(position + 5000 for position in near.positions[6:])
    return RowGroup(
        kv_id=near.kv_id,
        token_ids=near.token_ids,
        positions=near.positions[:6] + far,
        past_len=0,
        slots=near.slots,
        visible=near.visible,
        wanted=near.wanted,
    )


@pytest.mark.parametrize("prepack", [False, pytest.param(True, marks=needs_packing)])
def test_a_prefill_chunk_may_want_nothing(prepack: bool) -> None:
    group = replace(chain(PROMPT), wanted=())
    assert _lean("llama", torch.float32, prepack=prepack).forward([group]).shape == (0, VOCAB_SIZE)


def test_release_frees_the_session() -> None:
    runner = _lean("llama", torch.float32)
    runner.forward([chain(PROMPT)])
    runner.release(KvId("a"))
    assert (runner.kv_store.num_sessions, runner.kv_store.num_bytes) == (0, 0)


@pytest.mark.parametrize("prepack", [False, pytest.param(True, marks=needs_packing)])
def test_wide_layers_equal_the_reference(prepack: bool) -> None:
    """Without our loops gate and up are two products there."""
    first, second = (tiny_model(dtype=torch.float32, intermediate_size=5000) for _ in range(2))
    lean, reference = LeanRunner(first, prepack=prepack), TransformersRunner(second)
    logits, expected = _speak(lean), _speak(reference)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4 * float(expected.std()))


def test_tied_embeddings() -> None:
    lean = LeanRunner(tiny_model(tie_word_embeddings=True), prepack=False)
    reference = TransformersRunner(tiny_model(tie_word_embeddings=True))
    torch.testing.assert_close(_speak(lean), _speak(reference), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["gemma2 2B", "gpt2", "granite", "qwen2_moe"])
def test_other_architectures_do_not_fit(name: str) -> None:
    assert not fits_lean_runner(tiny_model(name))


def test_other_activations_do_not_fit() -> None:
    assert not fits_lean_runner(tiny_model(hidden_act="gelu"))


def test_packing_is_for_short_floats_on_cpu() -> None:
    assert not can_prepack(torch.float64, CPU)
    assert not can_prepack(torch.float16, CPU)
    assert not can_prepack(torch.float32, torch.device("cuda"))


def test_no_packing_without_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AttributeError("no such operator")

    monkeypatch.setattr("ssd.engine.projection.row_kernel", lambda: None)
    monkeypatch.setattr("ssd.engine.projection._Packed", refuse)
    _multiplies_by_onednn.cache_clear()
    try:
        assert not can_prepack(torch.float32, CPU)
    finally:
        _multiplies_by_onednn.cache_clear()
