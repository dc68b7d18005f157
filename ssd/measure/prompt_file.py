"""The user's prompts: a line each, as text or as JSON."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssd.client import Message, Prompt
from ssd.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class OwnPrompt:
    """A prompt and where it stands in the file."""

    name: str
    prompt: Prompt


def read_prompts(file: Path, *, limit: int) -> tuple[OwnPrompt, ...]:
    """The first `limit` prompts of a file.

    A file that ends in .jsonl holds a JSON value a line: a text, {"prompt": text}, or
    {"messages": [{"role": ..., "content": ...}, ...]}. Any other file holds a text a line.

    Raises:
        ConfigError: it cannot be read, holds no prompt, or has a line that is none.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not text in UTF-8") from error
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbered:
        raise ConfigError(f"{file} holds no prompt: every line that is not empty is one")
    is_json = file.suffix == ".jsonl"
    return tuple(
        OwnPrompt(f"line {number}", _from_json(file, number, line) if is_json else line)
        for number, line in numbered[:limit]
    )


def _from_json(file: Path, number: int, line: str) -> Prompt:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{file}, line {number} is not JSON: {error}") from error
    prompt = _prompt(value)
    if not prompt:
        raise ConfigError(
            f"{file}, line {number} is no prompt: it must be a text, or an object with a text"
            " `prompt` or with `messages`"
        )
    return prompt


def _prompt(value: Any) -> Prompt | None:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("prompt"), str):
        return str(value["prompt"])
    messages = value.get("messages")
    if not isinstance(messages, list):
        return None
    turns = [each for each in messages if isinstance(each, dict)]
    texts = [(each.get("role"), each.get("content")) for each in turns]
    if len(texts) < len(messages) or not all(
        isinstance(part, str) for pair in texts for part in pair
    ):
        return None
    return tuple(Message(str(role), str(content)) for role, content in texts)
