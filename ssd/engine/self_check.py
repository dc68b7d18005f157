"""Does a runner say what the model says? Asked at every load, before the first session.

Catches what no configuration tells: position biases, convolutions or states that do not pass
through the attention interface, a runner that misreads an architecture.

    the model   t0 t1 t2 t3 t4 t5          one plain forward
    the runner  t0 t1 t2                   in scattered slots
                         t3 t4 t5          beside a sibling branch and another session
                         x3 x4
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ssd.core.errors import ModelRefused
from ssd.core.ids import SessionId, SlotSet
from ssd.core.rows import RowGroup, Runner

_PROBE = SessionId("self-check")
_OTHER = SessionId("self-check, another session")
_NUM_TOKENS = 6
_PAST_SLOTS = (4, 0, 7)
_BRANCH_SLOTS = (1, 9, 3)
_SIBLING_SLOTS = (2, 5)

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
    num_past = len(_PAST_SLOTS)
    past = _chain(_PROBE, token_ids[:num_past], slots=_PAST_SLOTS)
    before = runner.forward([past])
    other = _chain(_OTHER, token_ids[::-1], slots=range(_NUM_TOKENS))
    after = runner.forward([other, _fork(token_ids[num_past:], past.visible[-1])])
    return torch.cat([before, after[_NUM_TOKENS : _NUM_TOKENS + num_past]])


def _fork(token_ids: Sequence[int], above: SlotSet) -> RowGroup:
    branch = _chain(_PROBE, token_ids, slots=_BRANCH_SLOTS, above=above)
    sibling = _chain(_PROBE, token_ids[1:], slots=_SIBLING_SLOTS, above=above)
    return RowGroup(
        session_id=_PROBE,
        token_ids=branch.token_ids + sibling.token_ids,
        positions=branch.positions + sibling.positions,
        slots=branch.slots + sibling.slots,
        visible=branch.visible + sibling.visible,
        wanted=branch.wanted,
    )


def _chain(
    session_id: SessionId,
    token_ids: Sequence[int],
    *,
    slots: Sequence[int],
    above: SlotSet = SlotSet(0),  # noqa: B008 - an int
) -> RowGroup:
    first = above.bit_count()
    visible: list[SlotSet] = []
    for slot in slots:
        above = SlotSet(above | 1 << slot)
        visible.append(above)
    return RowGroup(
        session_id=session_id,
        token_ids=tuple(token_ids),
        positions=tuple(range(first, first + len(token_ids))),
        slots=tuple(slots),
        visible=tuple(visible),
        wanted=tuple(range(len(token_ids))),
    )


def _relative_difference(actual: Tensor, expected: Tensor) -> float:
    spread = (expected - expected.mean(dim=-1, keepdim=True)).square().mean().sqrt()
    difference = (actual - expected).square().mean().sqrt()
    return float(difference / spread.clamp_min(1e-12))
