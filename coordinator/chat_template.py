"""Chat messages to a prompt, by the template that comes with the model.

A template is a program written by whoever made the model, so it runs in jinja2's sandbox, without
access to anything but the messages. The environment is that of transformers, whose templates these
are.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ssd.core.errors import InvalidRequest
from ssd.v1 import generation_pb2


class ChatTemplate:
    """One model's template, compiled when it is first used."""

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        self._source = source
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}

    def render(self, messages: Sequence[generation_pb2.ChatMessage]) -> str:
        """The prompt that the model was trained to answer.

        Raises:
            InvalidRequest: the template refuses the messages, or there is none.
        """
        if not self._source:
            raise InvalidRequest(
                "the model has no chat template: give text or token_ids instead of chat", "chat"
            )
        conversation = [{"role": each.role, "content": each.content} for each in messages]
        try:
            template = _environment().from_string(self._source)
            return template.render(
                messages=conversation, add_generation_prompt=True, **self._tokens
            )
        # Arithmetic on a message or a wrong type inside a template raises what Python raises.
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise InvalidRequest(
                f"the model's chat template refuses this chat: {error}", "chat"
            ) from error


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _now
    return environment


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> None:
    raise TemplateError(message)


def _now(pattern: str) -> str:
    return datetime.now().astimezone().strftime(pattern)
