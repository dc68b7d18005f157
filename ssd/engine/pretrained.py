"""A checkpoint as `transformers` loads it: configuration, model, tokenizer."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.quantizers import AutoHfQuantizer
from transformers.utils.logging import (
    disable_progress_bar,
    get_verbosity,
    set_verbosity,
    set_verbosity_error,
)

from ssd.core.cost_model import Experts
from ssd.core.errors import ConfigError, ModelRefused
from ssd.engine.checkpoint import Checkpoint
from ssd.engine.refusals import quantisation_of, refuse_unservable
from ssd.tokenizer.vocabulary import Vocabulary

LLAMA_LIKE = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""One decoder layer of these is like the next, with pre-norms and a gated MLP."""

# What a broken or foreign checkpoint makes the library raise.
_LOADING_ERRORS = (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError)


@dataclass(frozen=True)
class Pretrained:
    """A loaded model with what its files say about it."""

    name: str
    model: PreTrainedModel
    vocabulary: Vocabulary | None
    eos_token_ids: tuple[int, ...]

    @cached_property
    def text_config(self) -> Any:
        """The configuration of the language model, where others are beside it."""
        return self.model.config.get_text_config(decoder=True)

    @property
    def quantisation(self) -> str | None:
        """The method that its weights are quantised by, None for plain ones."""
        return quantisation_of(self.model.config)

    @property
    def vocab_size(self) -> int:
        return int(self.text_config.vocab_size)

    @property
    def context_len(self) -> int:
        length = _stated_context_len(self.text_config)
        assert length is not None, "models that do not say are refused"
        return length

    @property
    def experts(self) -> Experts | None:
        """Of a mixture of experts, what a layer has of them."""
        config = self.text_config
        names = ("num_local_experts", "num_experts", "n_routed_experts")
        count = next((getattr(config, name, None) for name in names if hasattr(config, name)), None)
        per_row = getattr(config, "num_experts_per_tok", None)
        if not count or not per_row:
            return None
        return Experts(int(count), min(int(per_row), int(count)))

    @property
    def num_layers(self) -> int:
        return int(self.text_config.num_hidden_layers)

    @torch.inference_mode()
    def logits(self, token_ids: Iterable[int]) -> Tensor:
        """[tokens, vocab] of one plain forward, as the library does it."""
        model: Any = self.model
        tokens = torch.tensor([list(token_ids)], device=model.device)
        logits: Tensor = model(tokens, use_cache=False).logits[0]
        return logits


@dataclass(frozen=True, slots=True)
class _Source:
    """What every `from_pretrained` of the library gets."""

    checkpoint: Checkpoint
    trust_remote_code: bool

    def load(self, auto_class: Any, **options: Any) -> Any:
        if self.checkpoint.gguf_file is not None:
            options["gguf_file"] = self.checkpoint.gguf_file
        try:
            return auto_class.from_pretrained(
                self.checkpoint.folder,
                local_files_only=True,
                trust_remote_code=self.trust_remote_code,
                **options,
            )
        except _LOADING_ERRORS as error:
            reason = str(error).strip().split("\n")[0]
            raise ConfigError(f"cannot load {self.checkpoint.name}: {reason}") from error


def load_pretrained(
    checkpoint: Checkpoint,
    *,
    dtype: torch.dtype,
    device: torch.device,
    trust_remote_code: bool,
    num_layers: int | None,
) -> Pretrained:
    """Load the model, or its first `num_layers` layers.

    Raises:
        ConfigError: the files can't be read.
        ModelRefused: the model can't be served exactly.
    """
    disable_progress_bar()  # a service logs events
    source = _Source(checkpoint, trust_remote_code)
    config = source.load(AutoConfig)
    refuse_unservable(checkpoint.name, config)
    _refuse_without_context(checkpoint.name, config)
    if num_layers is not None:
        _check_can_be_cut(checkpoint.name, config, num_layers)
        if _reads_by_tensor(checkpoint, config):  # the others' weights are never read
            _cut(config, num_layers)
    with _without_reports():
        model = _load_model(source, config, dtype, device)
    if num_layers is not None and num_layers < model.config.num_hidden_layers:
        model.model.layers = model.model.layers[:num_layers]
        _cut(model.config, num_layers)
    return Pretrained(checkpoint.name, model, _vocabulary(source), _eos_token_ids(model))


@contextmanager
def _without_reports() -> Iterator[None]:
    """The library lists weights that it did not use; what matters of that is refused here."""
    before = get_verbosity()
    set_verbosity_error()
    try:
        yield
    finally:
        set_verbosity(before)


def _load_model(
    source: _Source, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device
) -> Any:
    # dtype is given here because `.to(dtype)` would round the rotary frequencies as well.
    options: dict[str, Any] = {"config": config, "dtype": dtype, "output_loading_info": True}
    if dtype is torch.float64:
        options["experts_implementation"] = "eager"  # torch groups no products of float64
    if source.checkpoint.gguf_file is None:
        options["use_safetensors"] = True
    method = quantisation_of(config)
    if method is not None:
        return _load_quantised(source, options, method, device)
    model, info = source.load(AutoModelForCausalLM, **options)
    if missing := sorted(info["missing_keys"]):
        raise ModelRefused(f"{source.checkpoint.name} has no weights for {missing[0]}")
    return model.eval().to(device)


def _load_quantised(
    source: _Source, options: dict[str, Any], method: str, device: torch.device
) -> Any:
    """As the library loads it: packages and devices that a method needs are its business."""
    name = source.checkpoint.name
    stated = _stated(options["config"].quantization_config)
    if "quant_method" not in stated or not AutoHfQuantizer.supports_quant_method(stated):
        raise ModelRefused(f"{name} can't be served: its weights are quantised ({method})")
    if device.type != "cpu":
        options["device_map"] = {"": device}  # quantised weights are not moved afterwards
    try:
        model, _ = source.load(AutoModelForCausalLM, **options)
    except ConfigError as error:
        reason = str(error.__cause__).strip().split("\n")[0]
        raise ModelRefused(
            f"{name} can't be served: its weights are quantised ({method}): {reason}"
        ) from error
    return model.eval()


def _stated(quantisation: Any) -> dict[str, Any]:
    return quantisation if isinstance(quantisation, dict) else quantisation.to_dict()


def _refuse_without_context(name: str, config: PreTrainedConfig) -> None:
    if _stated_context_len(config.get_text_config(decoder=True)) is None:
        raise ModelRefused(f"{name} ({config.model_type}) does not say how long a text may be")


def _stated_context_len(text_config: Any) -> int | None:
    # MPT and Bloom have position biases instead of embeddings, and names of their own for it.
    names = ("max_position_embeddings", "max_seq_len", "seq_length")
    stated = [getattr(text_config, name, None) for name in names]
    return next((int(length) for length in stated if length is not None), None)


def _reads_by_tensor(checkpoint: Checkpoint, config: PreTrainedConfig) -> bool:
    """Whether only those tensors are read that the configured model has."""
    return checkpoint.gguf_file is None and quantisation_of(config) is None


def _check_can_be_cut(name: str, config: Any, num_layers: int) -> None:
    if config.model_type not in LLAMA_LIKE:
        raise ModelRefused(f"{name} ({config.model_type}) can't be cut to its first layers")
    if num_layers > config.num_hidden_layers:
        raise ConfigError(f"{name} has {config.num_hidden_layers} layers, not {num_layers}")


def _cut(config: Any, num_layers: int) -> None:
    if getattr(config, "layer_types", None) is not None:
        config.layer_types = config.layer_types[:num_layers]
    config.num_hidden_layers = num_layers


def _vocabulary(source: _Source) -> Vocabulary | None:
    checkpoint = source.checkpoint
    if checkpoint.tokenizer_file is not None:
        return Vocabulary.from_file(checkpoint.tokenizer_file)
    if checkpoint.gguf_file is None:
        return None
    return Vocabulary.from_tokenizer(source.load(AutoTokenizer).backend_tokenizer)


def _eos_token_ids(model: PreTrainedModel) -> tuple[int, ...]:
    generation: GenerationConfig | None = getattr(model, "generation_config", None)
    stated = getattr(generation, "eos_token_id", None)
    if stated is None:
        stated = getattr(model.config.get_text_config(decoder=True), "eos_token_id", None)
    if stated is None:
        return ()
    return (stated,) if isinstance(stated, int) else tuple(sorted(set(stated)))
