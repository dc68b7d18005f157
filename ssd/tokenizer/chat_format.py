"""The chat template of a model and the tokens it may name, as its folder says."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssd.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """A jinja template for messages, empty where the model has none; and its special tokens."""

    template: str = ""
    bos_token: str = ""
    eos_token: str = ""

    @classmethod
    def from_folder(cls, folder: Path) -> "ChatFormat":
        """What `chat_template.jinja` or `tokenizer_config.json` says.

        Raises:
            ConfigError: the configuration of the tokenizer is broken.
        """
        config = _read_json(folder / "tokenizer_config.json")
        file = folder / "chat_template.jinja"
        template = file.read_text("utf-8") if file.is_file() else config.get("chat_template")
        return cls(
            _default_of(template), _token(config.get("bos_token")), _token(config.get("eos_token"))
        )


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        config = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ConfigError(f"{file} is no JSON: {error}") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{file} holds no object")
    return config


def _default_of(template: Any) -> str:
    """A model may have several templates by name; the one for chat is called default."""
    if isinstance(template, list):
        named = {each.get("name"): each.get("template") for each in template}
        template = named.get("default")
    return template if isinstance(template, str) else ""


def _token(token: Any) -> str:
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else ""
