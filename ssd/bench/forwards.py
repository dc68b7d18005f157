"""What a forward costs: against a bare one, against memory, with sessions, over a long text."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from ssd.bench.bare_forward import BareForward
from ssd.bench.figure import Figure
from ssd.bench.rows import prompt_rows, tree_rows
from ssd.bench.shapes import (
    FORTY_MILLION,
    ONE_MILLION,
    Shape,
    num_parameters,
    padded_target,
    weight_bytes,
)
from ssd.bench.timing import seconds_in_turns
from ssd.core.ids import KvId
from ssd.core.rows import RowGroup
from ssd.engine.lean_runner import LeanRunner
from ssd.engine.projection import can_prepack

_NODES = 8
_TEXT = 256
_LONG_TEXT = 4000
_CHUNK = 256
_SESSIONS = 16
_GIB = 2**30
_NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16"}


def tree_forward() -> list[Figure]:
    """A tree of one session, lean, against the bare forward of the same weights and shapes."""
    return [
        *_against_bare("1M", ONE_MILLION, limit=1.35, turns=300),
        *_against_bare("40M", FORTY_MILLION, limit=1.10, turns=60),
    ]


def padded_target_forward() -> list[Figure]:
    """A padded target of 47M: against reading its weights once, and against one node."""
    copy_s = _copy_seconds()
    figures = [Figure("copy of 1 GiB, counted once", 1 / copy_s, "GiB/s")]
    for dtype, name in _NAMES.items():
        model = padded_target(dtype)
        least_s = weight_bytes(model) / _GIB * copy_s
        runner = _runner(model)
        one_s, tree_s = _one_and_tree(runner, _TEXT, turns=40)
        figures += [
            Figure(f"padded 47M {name}: 8 nodes", tree_s * 1e3, "ms"),
            Figure(f"padded 47M {name}: 8 nodes / weights copied", tree_s / least_s, "x", 1.5),
            Figure(f"padded 47M {name}: 8 nodes / one", tree_s / one_s, "x", 1.25),
        ]
    return figures


def long_text_forward() -> list[Figure]:
    """8 nodes over a text of 4,000 tokens against one node over it."""
    figures = []
    for dtype, name in _NAMES.items():
        runner = _runner(padded_target(dtype))
        one_s, tree_s = _one_and_tree(runner, _LONG_TEXT, turns=30)
        note = f"{tree_s * 1e3:.1f} ms"
        figures.append(
            Figure(f"4,000 tokens {name}: 8 nodes / one", tree_s / one_s, "x", 1.3, note)
        )
    return figures


def many_sessions_forward() -> list[Figure]:
    """16 sessions in one step against a bare loop of the same products and attentions."""
    runner = _runner(padded_target(torch.float32))
    groups = []
    for number in range(_SESSIONS):
        kv_id = KvId(f"bench-{number}")
        _prefill(runner, kv_id, _TEXT)
        groups.append(tree_rows(kv_id, past_len=_TEXT, num_nodes=1))
    ours_s, bare_s = _ours_and_bare(runner, groups, turns=40)
    note = f"{ours_s * 1e3:.1f} ms, bare {bare_s * 1e3:.1f} ms"
    return [Figure("16 sessions / bare loop", ours_s / bare_s, "x", 1.15, note)]


def _against_bare(name: str, shape: Shape, *, limit: float, turns: int) -> list[Figure]:
    model = shape.build(torch.float32)
    size = f"{num_parameters(model) / 1e6:.1f}M"
    runner = _runner(model)
    _, tree = _groups_of_one_session(runner, _TEXT)
    ours_s, bare_s = _ours_and_bare(runner, [tree], turns=turns)
    note = f"{size}: {ours_s * 1e3:.2f} ms, bare {bare_s * 1e3:.2f} ms"
    return [Figure(f"tree of 8, {name} / bare", ours_s / bare_s, "x", limit, note)]


def _one_and_tree(runner: LeanRunner, text_len: int, *, turns: int) -> tuple[float, float]:
    """Seconds of one node and of a tree above a text."""
    one, tree = _groups_of_one_session(runner, text_len)
    one_s, tree_s = seconds_in_turns(
        [lambda: runner.forward([one]), lambda: runner.forward([tree])], turns=turns
    )
    return one_s, tree_s


def _ours_and_bare(
    runner: LeanRunner, groups: Sequence[RowGroup], *, turns: int
) -> tuple[float, float]:
    expected = runner.forward(groups)
    bare = BareForward(runner, groups)
    # A bare forward that computes something else would be no measure of ours.
    torch.testing.assert_close(bare(), expected, rtol=1e-3, atol=1e-3)
    ours_s, bare_s = seconds_in_turns([lambda: runner.forward(groups), bare], turns=turns)
    return ours_s, bare_s


def _runner(model: PreTrainedModel) -> LeanRunner:
    return LeanRunner(model, prepack=can_prepack(model.dtype, model.device))


def _groups_of_one_session(runner: LeanRunner, text_len: int) -> tuple[RowGroup, RowGroup]:
    """One node and a tree, above a text that is there."""
    kv_id = KvId("bench")
    _prefill(runner, kv_id, text_len)
    one, tree = (tree_rows(kv_id, past_len=text_len, num_nodes=each) for each in (1, _NODES))
    return one, tree


def _prefill(runner: LeanRunner, kv_id: KvId, text_len: int) -> None:
    for start in range(0, text_len, _CHUNK):
        runner.forward([prompt_rows(kv_id, start, min(start + _CHUNK, text_len))])


def _copy_seconds() -> float:
    """Of 1 GiB in memory, the best of a few."""
    source = torch.ones(_GIB // 4)
    target = torch.empty_like(source)
    return min(seconds_in_turns([lambda: target.copy_(source)], turns=1)[0] for _ in range(3))
