"""Does a runner say what the model says? Asked at every load, before the first session.

Catches what no configuration tells: position biases, convolutions or states that do not pass
through the attention interface, a runner that misreads an architecture.

    the model   t0 t1 t2 t3 t4 t5          one plain forward
    the runner  t0 t1 t2
                         t3 t4 t5          in scattered slots, beside a sibling branch and another
                         x3 x4
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ssd.core.errors import ModelRefused
from ssd.core.ids import KvId, SlotSet
from ssd.core.rows import RowGroup, Runner

_PROBE = KvId("self-check")
_OTHER = KvId("self-check, another text")
_NUM_TOKENS = 6
_NUM_PAST = 3
_BRANCH_SLOTS = (4, 9, 3)
_SIBLING_SLOTS = (6, 5)

# Of the spread of the logits. Rounding stays far below, a wrong attention far above.
_TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-2, torch.bfloat16: 0.2, torch.float16: 0.2}


def probe_token_ids(vocab_size: int) -> tuple[int, ...]:
    """The text of the check: ids spread over the vocabulary."""
    return tuple((7 + index * vocab_size // 11) % vocab_size for index in range(_NUM_TOKENS))


def check_runner(
    name: str, runner: Runner[Tensor], token_ids: Sequence[int], expected: Tensor
) -> None:
    """Compare the runner's logits to the model's own, [tokens, vocab].

    Raises:
        ModelRefused: they differ by more than rounding.
    """
    try:
        actual = _run_in_pieces(runner, tuple(token_ids))
    finally:
        runner.release(_PROBE)
        runner.release(_OTHER)
    limit = _TOLERANCE[expected.dtype]
    difference = _relative_difference(actual, expected.to(actual.dtype))
    if not difference <= limit:
        raise ModelRefused(
            f"{name} can't be served: run in pieces its logits differ by {difference:.2g} "
            f"of their spread, and rounding explains {limit:g}"
        )


def _run_in_pieces(runner: Runner[Tensor], token_ids: tuple[int, ...]) -> Tensor:
    before = runner.forward([_chain(_PROBE, token_ids[:_NUM_PAST], slots=range(_NUM_PAST))])
    other = _chain(_OTHER, token_ids[::-1], slots=range(_NUM_TOKENS))
    after = runner.forward([other, _fork(token_ids[_NUM_PAST:])])
    return torch.cat([before, after[_NUM_TOKENS : 2 * _NUM_TOKENS - _NUM_PAST]])


def _fork(token_ids: Sequence[int]) -> RowGroup:
    branch = _chain(_PROBE, token_ids, slots=_BRANCH_SLOTS, past_len=_NUM_PAST)
    sibling = _chain(_PROBE, token_ids[1:], slots=_SIBLING_SLOTS, past_len=_NUM_PAST)
    return RowGroup(
        kv_id=_PROBE,
        token_ids=branch.token_ids + sibling.token_ids,
        positions=branch.positions + sibling.positions,
        past_len=_NUM_PAST,
        slots=branch.slots + sibling.slots,
        visible=branch.visible + sibling.visible,
        wanted=branch.wanted,
    )


def _chain(
    kv_id: KvId, token_ids: Sequence[int], *, slots: Sequence[int], past_len: int = 0
) -> RowGroup:
    above = 0
    visible: list[SlotSet] = []
    for slot, _ in zip(slots, token_ids, strict=True):
        above |= 1 << slot - past_len
        visible.append(SlotSet(above))
    return RowGroup(
        kv_id=kv_id,
        token_ids=tuple(token_ids),
        positions=tuple(range(past_len, past_len + len(token_ids))),
        past_len=past_len,
        slots=tuple(slots),
        visible=tuple(visible),
        wanted=tuple(range(len(token_ids))),
    )


def _relative_difference(actual: Tensor, expected: Tensor) -> float:
    spread = (expected - expected.mean(dim=-1, keepdim=True)).square().mean().sqrt()
    difference = (actual - expected).square().mean().sqrt()
    return float(difference / spread.clamp_min(1e-12))
