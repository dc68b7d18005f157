"""Loading the model of a role as the configuration names it, and saying what it is."""

import uuid
from dataclasses import replace
from pathlib import Path

import torch

from ssd.config import SsdConfig, draft_of, resolve_model
from ssd.core.errors import ConfigError
from ssd.engine.loading import LoadedModel, LoadOptions, RunnerChoice, load_model
from ssd.tokenizer.chat_format import ChatFormat
from ssd.wire.hello import Capabilities


def load_target(config: SsdConfig) -> LoadedModel:
    """Raises ConfigError or ModelRefused with a sentence."""
    models = config.models
    return _load(config, resolve_model(models.target, role="target"), models.target_dtype, None)


def load_draft(config: SsdConfig) -> LoadedModel:
    """The draft model, or the target's first layers where the configuration asks for those.

    Raises:
        ConfigError: the configuration names no draft, or it cannot be served.
    """
    models = config.models
    name = draft_of(config)
    if name is None:
        raise ConfigError(f"no draft is configured for {models.target}: name one in models.draft")
    return _load(config, name, models.draft_dtype, models.draft_layers)


def capabilities_of(loaded: LoadedModel, *, dtype: str) -> Capabilities:
    """What a worker with this model says of itself.

    Raises:
        ConfigError: the model has no tokenizer that could be compared.
    """
    if loaded.vocabulary is None:
        raise ConfigError(f"{loaded.name} has no tokenizer.json, so its ids cannot be compared")
    return Capabilities(
        instance_id=uuid.uuid4().hex,
        model_name=loaded.name,
        fingerprint=str(loaded.fingerprint),
        vocabulary_digest=loaded.vocabulary.digest,
        special_digest=loaded.vocabulary.special_digest,
        vocab_size=loaded.vocab_size,
        context_len=loaded.context_len,
        eos_token_ids=loaded.eos_token_ids,
        dtype=dtype,
    )


def tokenizer_json(loaded: LoadedModel) -> str:
    """The model's tokenizer, for a coordinator that has no model files.

    Raises:
        ConfigError: the model has none of the `tokenizers` library.
    """
    if loaded.vocabulary is None or loaded.vocabulary.tokenizer is None:
        raise ConfigError(f"{loaded.name} has no tokenizer.json, so it cannot serve text")
    return str(loaded.vocabulary.tokenizer.to_str())


def chat_format(config: SsdConfig, loaded: LoadedModel) -> ChatFormat:
    """The model's chat template, or the operator's where one is configured.

    Raises:
        ConfigError: the configured file cannot be read.
    """
    file = config.models.chat_template
    if file is None:
        return loaded.chat
    try:
        return replace(loaded.chat, template=Path(file).expanduser().read_text("utf-8"))
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"models.chat_template: cannot read {file}: {error}") from error


def device_of(config: SsdConfig) -> str:
    """The torch device the configuration means on this machine."""
    if config.models.device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return config.models.device


def _load(config: SsdConfig, name: str, dtype: str, num_layers: int | None) -> LoadedModel:
    return load_model(
        name,
        dtype=dtype,
        device=device_of(config),
        offline=config.models.hub_offline,
        trust_remote_code=config.models.trust_remote_code,
        options=LoadOptions(layers=num_layers, runner=RunnerChoice(config.models.runner)),
    )
