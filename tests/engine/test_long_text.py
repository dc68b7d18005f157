"""Over a long text attention leaves out the mask, and says what it says with one."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ssd.core.ids import KvId
from ssd.core.rows import Runner
from ssd.engine import row_batch
from ssd.engine.attention import attend
from ssd.engine.attention_parts import attend_by_hand, attend_in_two_parts
from ssd.engine.attention_rule import AttentionRule
from ssd.engine.lean_runner import LeanRunner
from ssd.engine.transformers_runner import TransformersRunner
from tests.engine.row_groups import chain, tree
from tests.engine.tiny_models import VOCAB_SIZE, tiny_model

TEXT_LEN = 1200
NUM_SLOTS = TEXT_LEN + 8


def _qkv(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Two key heads, four query heads of 8 rows over a text and a tree."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(4, 8, 16, generator=generator, dtype=torch.float64)
    keys = torch.randn(2, NUM_SLOTS, 16, generator=generator, dtype=torch.float64)
    values = torch.randn(2, NUM_SLOTS, 16, generator=generator, dtype=torch.float64)
    return query.to(dtype), keys.to(dtype), values.to(dtype)


def _tree_mask(dtype: torch.dtype = torch.float64) -> Tensor:
    """[8, 8]: every row sees itself and some of the others before it."""
    seen = torch.rand(8, 8, generator=torch.Generator().manual_seed(1)) > 0.5
    seen = seen.tril() | torch.eye(8, dtype=torch.bool)
    return torch.zeros(8, 8, dtype=dtype).masked_fill_(~seen, -torch.inf)


def _dense(mask: Tensor) -> Tensor:
    return torch.cat([mask.new_zeros(8, TEXT_LEN), mask], dim=1).repeat(2, 1)


RULES = {
    "plain": AttentionRule(),
    "scaled": AttentionRule(scale=0.7),
    "soft cap": AttentionRule(softcap=1.5),
    "sinks": AttentionRule(sinks=torch.tensor([0.5, -1.0, 2.0, 7.0], dtype=torch.float64)),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_small_mask_equals_the_dense_one(rule: AttentionRule) -> None:
    query, keys, values = _qkv()
    mask = _tree_mask()
    small = attend(query, keys, values, mask=mask.repeat(2, 1), rule=rule)
    dense = attend(query, keys, values, mask=_dense(mask), rule=rule)
    torch.testing.assert_close(small, dense, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [None, 0.3, 20.0])
def test_two_softmaxes_merge_into_one(scale: float | None) -> None:
    query, keys, values = _qkv()
    folded, mask, rule = query.reshape(2, 16, 16), _tree_mask(), AttentionRule(scale=scale)
    merged = attend_in_two_parts(folded, keys, values, mask=mask.repeat(2, 1), rule=rule)
    whole = attend_by_hand(folded, keys, values, mask=_dense(mask), rule=rule)
    torch.testing.assert_close(merged, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (torch.bfloat16, 0.1)])
def test_short_floats_stay_near(dtype: torch.dtype, limit: float) -> None:
    exact = attend(*_qkv(), mask=_dense(_tree_mask()), rule=AttentionRule())
    mask = _tree_mask(dtype).repeat(2, 1)
    small = attend(*_qkv(dtype), mask=mask, rule=AttentionRule())
    error = (small.double() - exact).abs().max() / exact.std()
    assert float(error) < limit


@pytest.mark.parametrize("name", ["llama", "qwen2 sliding", "gemma2 27B", "gpt_oss"])
def test_a_tree_above_a_long_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same logits whether or not the text is left out of the mask."""
    make: Callable[..., Runner[Tensor]] = TransformersRunner
    if name == "llama":
        make = lambda model: LeanRunner(model, prepack=False)  # noqa: E731
    logits = []
    for long_text_len in (1024, 10**6):
        monkeypatch.setattr(row_batch, "_LONG_TEXT_LEN", long_text_len)
        logits.append(_tree_logits(make(tiny_model(name, max_position_embeddings=2048))))
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-9, atol=1e-9)


def _tree_logits(runner: Runner[Tensor]) -> Tensor:
    text = tuple(position * 7 % VOCAB_SIZE for position in range(TEXT_LEN))
    for start in range(0, TEXT_LEN, 300):
        runner.forward([chain(text[start : start + 300], past=range(start))])
    slots = tuple(range(TEXT_LEN, TEXT_LEN + 5))
    rows = tree((9, 10, 20, 30, 11), (-1, 0, -1, 0, 1), past=range(TEXT_LEN), slots=slots)
    return runner.forward([rows])


@pytest.mark.parametrize(
    "make", [TransformersRunner, lambda model: LeanRunner(model, prepack=False)]
)
def test_attention_reads_the_slots_in_use_and_not_the_room(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    num_read: list[int] = []

    def counting(query: Tensor, keys: Tensor, values: Tensor, **options: Any) -> Tensor:
        num_read.extend((keys.shape[1], values.shape[1]))
        return attend(query, keys, values, **options)

    monkeypatch.setattr(row_batch, "attend", counting)
    runner = make(tiny_model())
    runner.kv_store.open(KvId("a"), 4096)
    runner.forward([chain(range(20))])
    runner.forward([tree((9, 10, 20), (-1, 0, -1), past=range(20), slots=(20, 21, 22))])
    assert set(num_read) == {20, 23}
    assert runner.kv_store.open(KvId("a"), 1).capacity == 4096
