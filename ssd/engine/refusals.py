"""Models that can't be served exactly, told by their configuration.

What a configuration does not tell, `self_check` finds by running the model.
"""

from collections.abc import Iterator
from typing import Any

from transformers import PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from ssd.core.errors import ModelRefused

SERVED_LAYER_TYPES = frozenset({"full_attention", "sliding_attention"})
# These stretch with the longest text of a forward, so a session's logits would depend on others'.
_ROPE_OF_THE_LONGEST = frozenset({"dynamic", "longrope"})


def refuse_unservable(name: str, config: PreTrainedConfig) -> None:
    """Raise if the configuration tells that the model can't be served exactly.

    Raises:
        ModelRefused: and why.
    """
    if reason := next(_reasons_to_refuse(config), None):
        raise ModelRefused(f"{name} ({config.model_type}) can't be served: {reason}")


def _reasons_to_refuse(config: PreTrainedConfig) -> Iterator[str]:
    text = config.get_text_config(decoder=True)
    model_class = _model_class(config)
    if config.is_encoder_decoder:
        yield "it is an encoder-decoder"
    if model_class is None and not _brings_a_causal_lm(config):
        yield "it is not a causal language model"
    if getattr(model_class, "_is_stateful", False):
        yield "it keeps a recurrent state, which can't be cut back to an earlier token"
    if other := sorted(set(getattr(text, "layer_types", None) or ()) - SERVED_LAYER_TYPES):
        yield f"its {', '.join(other)} layers are not plain attention"
    if rope := sorted(_rope_types(text) & _ROPE_OF_THE_LONGEST):
        yield f"its {rope[0]} rotary embedding depends on the longest text of a batch"


def quantisation_of(config: PreTrainedConfig) -> str | None:
    """The method that a checkpoint's weights are quantised by, None for plain ones."""
    quantisation = getattr(config, "quantization_config", None)
    if quantisation is None:
        return None
    stated = quantisation if isinstance(quantisation, dict) else vars(quantisation)
    method = stated.get("quant_method")
    name = str(getattr(method, "value", method) or "by an unknown method")
    # GGUF weights are expanded to full precision as they are read.
    return None if name == "gguf" else name


def _model_class(config: PreTrainedConfig) -> Any:
    return MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)


def _brings_a_causal_lm(config: PreTrainedConfig) -> bool:
    return "AutoModelForCausalLM" in (getattr(config, "auto_map", None) or {})


def _rope_types(text_config: PreTrainedConfig) -> set[str]:
    """Of all layers: a model may have one set of rope parameters, or one for each layer type."""
    parameters = getattr(text_config, "rope_parameters", None) or {}
    sets = [parameters, *(value for value in parameters.values() if isinstance(value, dict))]
    return {str(one["rope_type"]) for one in sets if "rope_type" in one}
