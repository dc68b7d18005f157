"""Chat templates run in a sandbox and refuse with words."""

import json
from pathlib import Path

import pytest
from jinja2 import Environment

from coordinator.chat_template import ChatTemplate
from ssd.core.errors import ConfigError, InvalidRequest
from ssd.tokenizer.chat_format import ChatFormat
from ssd.v1.generation_pb2 import ChatMessage

CHAT = [ChatMessage(role="user", content=" hi "), ChatMessage(role="assistant", content="yes")]
TALES = Path(__file__).resolve().parents[2] / "models" / "tales" / "target"


def test_a_conversation_becomes_the_models_prompt() -> None:
    chat = ChatFormat.from_folder(TALES)
    rendered = ChatTemplate(chat.template, eos_token=chat.eos_token).render(CHAT)
    assert rendered == "<|user|>\nhi<|end|>\n<|assistant|>\nyes<|end|>\n<|assistant|>\n"
    messages = [{"role": each.role, "content": each.content} for each in CHAT]
    plain = Environment(trim_blocks=True, lstrip_blocks=True).from_string(chat.template)
    assert rendered == plain.render(messages=messages, add_generation_prompt=True)


def test_special_tokens_and_helpers_are_there() -> None:
    source = "{{ bos_token }}{{ messages[0].content | tojson }}{{ strftime_now('%Y') | length }}"
    assert ChatTemplate(source, bos_token="<s>").render(CHAT) == '<s>" hi "4'


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages[0].role.__class__.__mro__[1].__subclasses__() }}",
        "{{ ''.__class__.__base__ }}{{ ''.__class__.__base__.__subclasses__() }}",
        "{% for i in range(10 ** 9) %}x{% endfor %}",
        "{{ messages.append(1) }}",
        "{{ 1 / 0 }}",
        "{{ messages[7].content.x }}",
        "{% broken",
        "",
    ],
)
def test_what_a_template_may_not_do_is_a_refused_chat(source: str) -> None:
    with pytest.raises(InvalidRequest, match="chat") as refused:
        ChatTemplate(source).render(CHAT)
    assert refused.value.field == "chat"


def test_a_template_is_read_from_either_file(tmp_path: Path) -> None:
    assert ChatFormat.from_folder(tmp_path) == ChatFormat()
    named = [{"name": "tools", "template": "T"}, {"name": "default", "template": "D"}]
    config = {"chat_template": named, "bos_token": {"content": "<s>"}, "eos_token": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert ChatFormat.from_folder(tmp_path) == ChatFormat("D", "<s>", "")
    (tmp_path / "chat_template.jinja").write_text("J")
    assert ChatFormat.from_folder(tmp_path).template == "J"
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json"):
        ChatFormat.from_folder(tmp_path)
