"""Rows through a transformers model give what the model gives."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from ssd.core.errors import ModelRefused
from ssd.core.ids import KvId
from ssd.core.rows import RowGroup
from ssd.engine.transformers_runner import TransformersRunner
from tests.engine.row_groups import chain, tree
from tests.engine.tiny_models import (
    ARCHITECTURES,
    VOCAB_SIZE,
    tiny_model,
)

_SHORT_SOFTMAX = {"gemma2", "gpt_oss", "bloom,", "bloom", "mpt", "mpt,", "gpt_neo", "xglm"}
PROMPT = (5, 17, 3, 44, 60, 8, 8, 21, 33, 7, 12, 50)


@pytest.fixture
def runner() -> TransformersRunner:
    return TransformersRunner(tiny_model())


def _alone(token_ids: tuple[int, ...], architecture: str = "llama") -> Tensor:
    """[tokens, vocab] of a plain forward of an untouched model."""
    model: Any = tiny_model(architecture)
    with torch.inference_mode():
        logits: Tensor = model(torch.tensor([token_ids])).logits[0]
    return logits


def _assert_same(logits: Tensor, expected: Tensor, architecture: str = "llama") -> None:
    # Where a model takes its own softmax, it does so in float32 whatever its weights are.
    limit = 1e-5 if architecture.partition(" ")[0] in _SHORT_SOFTMAX else 1e-9
    torch.testing.assert_close(logits, expected, rtol=limit, atol=limit)


def _greedy(runner: TransformersRunner, num_tokens: int) -> list[int]:
    token_ids = list(PROMPT)
    logits = runner.forward([chain(token_ids)])
    while len(token_ids) < len(PROMPT) + num_tokens:
        token_ids.append(int(logits[-1].argmax()))
        logits = runner.forward([chain(token_ids[-1:], past=range(len(token_ids) - 1))])
    return token_ids


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_text_is_that_of_generate(architecture: str) -> None:
    expected = _generated(tiny_model(architecture), 24)
    assert _greedy(TransformersRunner(tiny_model(architecture)), 24) == expected


def _generated(model: Any, num_tokens: int) -> list[int]:
    prompt = torch.tensor([PROMPT])
    output = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        max_new_tokens=num_tokens,
        eos_token_id=VOCAB_SIZE,  # never
    )
    return [int(token_id) for token_id in output[0]]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_each_path_of_a_tree_is_its_own_chain(architecture: str) -> None:
    runner = TransformersRunner(tiny_model(architecture))
    past = range(len(PROMPT))
    runner.forward([chain(PROMPT)])
    #      9 - 10 - 11 - 12     and beside it 20 - 21, below 9: 30
    nodes = (9, 10, 20, 30, 11, 21, 12)
    parents = (-1, 0, -1, 0, 1, 2, 4)
    slots = (20, 40, 13, 70, 12, 15, 30)
    logits = runner.forward([tree(nodes, parents, past=past, slots=slots)])
    _assert_same(_with_the_end_of_the_text(runner, nodes, parents, slots), logits, architecture)
    for node, path in ((6, (9, 10, 11, 12)), (5, (20, 21)), (3, (9, 30))):
        _assert_same(logits[node], _alone(PROMPT + path, architecture)[-1], architecture)


def _with_the_end_of_the_text(
    runner: TransformersRunner, nodes: Sequence[int], parents: Sequence[int], slots: Sequence[int]
) -> Tensor:
    """The tree's logits where the prompt's last rows are in its forward."""
    runner.forward([chain(PROMPT[:8], session="b")])
    rows = tree(
        (*PROMPT[8:], *nodes),
        (*range(-1, 3), *(parent + 4 for parent in parents)),
        session="b",
        past=range(8),
        slots=(*range(8, 12), *slots),
    )
    return runner.forward([rows])[4:]


def test_scattered_slots_change_nothing(runner: TransformersRunner) -> None:
    scattered = runner.forward([chain(PROMPT, slots=[11, 3, 7, 300, 1, 0, 2, 9, 4, 8, 10, 5])])
    _assert_same(scattered, _alone(PROMPT))


def test_what_lies_in_unseen_slots_changes_nothing(runner: TransformersRunner) -> None:
    runner.forward([chain((1, 2, 3, 4), slots=(0, 2, 4, 6))])
    logits = runner.forward([chain(PROMPT, slots=[1, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15])])
    _assert_same(logits, _alone(PROMPT))


def test_an_accepted_path_may_be_moved_into_the_text(runner: TransformersRunner) -> None:
    runner.forward([chain(PROMPT)])
    slots = (12, 13, 14, 15)
    runner.forward([tree((9, 10, 20, 30), (-1, 0, 0, 2), past=range(12), slots=slots)])
    # 9, 20, 30 are the text; 10 goes out of the way
    moves = ((14, 13), (15, 14), (13, 15))
    logits = runner.forward([chain((40,), past=range(15), moves=moves)])
    _assert_same(logits, _alone((*PROMPT, 9, 20, 30, 40))[-1:])


def test_a_text_may_begin_with_another(runner: TransformersRunner) -> None:
    runner.forward([chain(PROMPT)])
    runner.copy(KvId("a"), KvId("b"), 7)
    runner.release(KvId("a"))
    other = (50, 51)
    logits = runner.forward([chain(other, session="b", past=range(7))])
    _assert_same(logits, _alone(PROMPT[:7] + other)[7:])


def test_sessions_share_a_forward_and_nothing_else(runner: TransformersRunner) -> None:
    other = (40, 41, 42)
    runner.forward([chain(PROMPT[:6])])
    logits = runner.forward([chain(PROMPT[6:], past=range(6)), chain(other, session="b")])
    _assert_same(logits[:6], _alone(PROMPT)[6:])
    _assert_same(logits[6:], _alone(other))


@pytest.mark.parametrize("architecture", ["llama", "mistral sliding", "gemma2 27B", "bloom"])
@pytest.mark.parametrize("chunk_len", [1, 5])
def test_chunked_prefill_equals_one_shot(architecture: str, chunk_len: int) -> None:
    runner = TransformersRunner(tiny_model(architecture))
    logits = [
        runner.forward([chain(PROMPT[start : start + chunk_len], past=range(start))])
        for start in range(0, len(PROMPT), chunk_len)
    ]
    _assert_same(torch.cat(logits), _alone(PROMPT, architecture), architecture)


def test_growth_over_many_blocks_keeps_the_text(runner: TransformersRunner) -> None:
    long_prompt = tuple(position * 7 % VOCAB_SIZE for position in range(400))
    runner.forward([chain(long_prompt[:250])])
    logits = runner.forward([chain(long_prompt[250:], past=range(250))])
    _assert_same(logits, _alone(long_prompt)[250:])


def test_only_wanted_rows_have_logits(runner: TransformersRunner) -> None:
    whole = chain(PROMPT)
    groups = [_wanting(whole, (2, 7)), _wanting(chain((4, 5), session="b"), (1,))]
    logits = runner.forward(groups)
    _assert_same(logits[:2], _alone(PROMPT)[[2, 7]])
    _assert_same(logits[2:], _alone((4, 5))[1:])


def test_a_prefill_chunk_may_want_nothing(runner: TransformersRunner) -> None:
    assert runner.forward([_wanting(chain(PROMPT), ())]).shape == (0, VOCAB_SIZE)


@pytest.mark.parametrize(
    ("weights", "logits"),
    [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
    ],
)
def test_logits_are_at_least_float32(weights: torch.dtype, logits: torch.dtype) -> None:
    runner = TransformersRunner(tiny_model(dtype=weights))
    assert runner.forward([chain(PROMPT)]).dtype == logits


def test_release_frees_one_session(runner: TransformersRunner) -> None:
    runner.forward([chain(PROMPT), chain(PROMPT, session="b")])
    one_session = runner.kv_store.num_bytes // 2
    runner.release(KvId("a"))
    assert (runner.kv_store.num_sessions, runner.kv_store.num_bytes) == (1, one_session)
    runner.release(KvId("unknown"))


def test_a_session_id_used_again_starts_afresh(runner: TransformersRunner) -> None:
    runner.forward([chain((1, 2, 3) * 10)])
    runner.release(KvId("a"))
    _assert_same(runner.forward([chain(PROMPT)]), _alone(PROMPT))


@pytest.mark.parametrize("architecture", ["roformer"])
def test_models_without_the_attention_interface_are_refused(architecture: str) -> None:
    with pytest.raises(ModelRefused, match="does not let its attention be replaced"):
        TransformersRunner(tiny_model(architecture))


def _wanting(group: RowGroup, rows: tuple[int, ...]) -> RowGroup:
    return replace(group, wanted=rows)
