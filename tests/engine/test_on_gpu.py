"""The same rows on a GPU say what they say on a CPU."""

from typing import Any

import pytest
import torch
from torch import Tensor

from ssd.core.rows import RowGroup, Runner
from ssd.engine.attention import attend
from ssd.engine.attention_parts import attend_by_hand, attend_in_two_parts
from ssd.engine.attention_rule import AttentionRule
from ssd.engine.device_span import DeviceSpan
from ssd.engine.lean_runner import LeanRunner
from ssd.engine.transformers_runner import TransformersRunner
from ssd.sampling.host_copy import ids_and_numbers, to_host
from tests.engine.row_groups import chain, tree
from tests.engine.tiny_models import tiny_model

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda")
PAST = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
PROMPT = (5, 17, 3, 44, 60, 8, 8, 21, 33, 7, 12, 50)


def _on_gpu(name: str, **changes: Any) -> Any:
    model: Any = tiny_model(name, **changes)
    return model.to(CUDA)


def _speak(runner: Runner[Tensor]) -> Tensor:
    """A chunked prefill, another session, and a tree: all their logits."""
    steps: list[list[RowGroup]] = [
        [chain(PROMPT[:5])],
        [chain(PROMPT[5:], past=PAST[:5]), chain((1, 2, 3), session="b")],
        [
            tree((9, 10, 20, 30, 11), (-1, 0, -1, 0, 1), past=PAST, slots=(12, 13, 14, 15, 16)),
            chain((4,), session="b", past=range(3)),
        ],
    ]
    return torch.cat([runner.forward(step) for step in steps])


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2 27B", "gpt_oss", "bloom", "mixtral"])
def test_float64_equals_the_cpu(name: str) -> None:
    actual = _speak(TransformersRunner(_on_gpu(name))).cpu()
    expected = _speak(TransformersRunner(tiny_model(name)))
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_lean_forward_is_near_the_cpu(dtype: torch.dtype) -> None:
    actual = _speak(LeanRunner(_on_gpu("llama", dtype=dtype), prepack=False)).cpu()
    expected = _speak(LeanRunner(tiny_model("llama"), prepack=False)).float()
    limit = 1e-3 if dtype is torch.float32 else 0.1
    assert float((actual - expected).abs().mean() / expected.std()) < limit


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_long_text_without_a_mask(dtype: torch.dtype) -> None:
    """Through the kernel that takes no mask, in half precision, and by hand."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, 16, 64, generator=generator).to(CUDA, dtype)
    keys, values = (torch.randn(2, 2008, 64, generator=generator).to(CUDA, dtype) for _ in range(2))
    mask = torch.zeros(16, 8, device=CUDA, dtype=dtype)
    mask[:, 3:] = -torch.inf
    rule = AttentionRule()
    merged = attend_in_two_parts(query, keys, values, mask=mask, rule=rule)
    dense = torch.cat([mask.new_zeros(16, 2000), mask], dim=1).double()
    exact = attend_by_hand(query.double(), keys.double(), values.double(), mask=dense, rule=rule)
    torch.testing.assert_close(merged.double(), exact, rtol=2e-2, atol=2e-2)
    again = attend(query, keys, values, mask=mask, rule=rule)
    torch.testing.assert_close(again, merged)


def test_ids_and_numbers_come_back_in_one_copy() -> None:
    ids, numbers = torch.tensor([3, 2**40]), torch.tensor([0.1, -7.5])
    on_host = ids_and_numbers(ids.to(CUDA), numbers.to(CUDA))
    assert on_host[0].tolist() == ids.tolist()
    assert on_host[1].tolist() == numbers.double().tolist()
    assert to_host(numbers.to(CUDA)).is_pinned()


def test_a_span_is_the_time_that_the_device_worked() -> None:
    matrix = torch.randn(4096, 4096, device=CUDA)
    torch.cuda.synchronize()
    span = DeviceSpan(CUDA)
    for _ in range(20):
        matrix = (matrix @ matrix).clamp(-1, 1)
    start_s, end_s = span.end()
    assert 0.0 < end_s - start_s < 60.0
    assert matrix.shape == (4096, 4096)
