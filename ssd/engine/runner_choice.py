"""The quickest runner that says what the model says."""

from collections.abc import Sequence

from torch import Tensor
from transformers import PreTrainedModel

from ssd.core.errors import ModelRefused
from ssd.engine.lean_runner import LeanRunner, fits_lean_runner
from ssd.engine.pretrained import Pretrained
from ssd.engine.projection import can_prepack
from ssd.engine.self_check import check_runner, probe_token_ids
from ssd.engine.transformers_runner import TransformersRunner


def choose_runner(
    pretrained: Pretrained, *, force_reference: bool
) -> LeanRunner | TransformersRunner:
    """A runner that has passed the self-check.

    Raises:
        ModelRefused: no runner does.
    """
    token_ids = probe_token_ids(pretrained.vocab_size)
    expected = _expected(pretrained, token_ids)
    # A quantised layer is more than a weight matrix, and only its own module knows how to run it.
    needs_reference = force_reference or pretrained.quantisation is not None
    runner = _build(pretrained.model, force_reference=needs_reference)
    check_runner(pretrained.name, runner, token_ids, expected)
    if isinstance(runner, TransformersRunner):
        _refuse_hidden_window(pretrained, runner)
    return runner


def _expected(pretrained: Pretrained, token_ids: Sequence[int]) -> Tensor:
    try:
        return pretrained.logits(token_ids)
    except (RuntimeError, ValueError, ImportError) as error:
        if pretrained.quantisation is None:
            raise
        reason = str(error).strip().split("\n")[0]
        raise ModelRefused(
            f"{pretrained.name} can't be served: its weights are quantised "
            f"({pretrained.quantisation}) and do not run here in {pretrained.model.dtype}: {reason}"
        ) from error


def _build(model: PreTrainedModel, *, force_reference: bool) -> LeanRunner | TransformersRunner:
    if force_reference or not fits_lean_runner(model):
        return TransformersRunner(model)
    return LeanRunner(model, prepack=can_prepack(model.dtype, model.device))


def _refuse_hidden_window(pretrained: Pretrained, runner: TransformersRunner) -> None:
    """The self-check's text is shorter than any window, so a window must have shown itself."""
    config = pretrained.text_config
    layer_types = getattr(config, "layer_types", None) or ["sliding_attention"]
    has_window = getattr(config, "sliding_window", None) is not None
    if has_window and "sliding_attention" in layer_types and runner.windows == {None}:
        raise ModelRefused(
            f"{pretrained.name} ({config.model_type}) can't be served: "
            "it keeps its sliding window from the attention interface"
        )
