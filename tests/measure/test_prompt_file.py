"""A prompt a line, and one sentence about the line that is none."""

from pathlib import Path

import pytest

from ssd.client import Message
from ssd.core.errors import ConfigError
from ssd.measure import read_prompts


def _file(tmp_path: Path, name: str, text: str) -> Path:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


def test_every_line_of_a_text_is_a_prompt(tmp_path: Path) -> None:
    file = _file(tmp_path, "mine.txt", 'one\n\n{"prompt": "two"}\nthree\n')
    prompts = read_prompts(file, limit=2)
    assert [(each.name, each.prompt) for each in prompts] == [
        ("line 1", "one"),
        ("line 3", '{"prompt": "two"}'),
    ]


def test_lines_of_json_are_texts_or_conversations(tmp_path: Path) -> None:
    lines = (
        '"one"',
        '{"prompt": "two", "answer": "ignored"}',
        '{"messages": [{"role": "user", "content": "three"}]}',
    )
    prompts = read_prompts(_file(tmp_path, "mine.jsonl", "\n".join(lines)), limit=9)
    assert [each.prompt for each in prompts] == ["one", "two", (Message("user", "three"),)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "holds no prompt"),
        ("[1", "line 1 is not JSON"),
        ('"good"\n{"messages": [{"role": "user"}]}', "line 2 is no prompt"),
        ('{"messages": ["hello"]}', "line 1 is no prompt"),
        ("7", "line 1 is no prompt"),
        ('""', "line 1 is no prompt"),
    ],
)
def test_what_is_no_prompt_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        read_prompts(_file(tmp_path, "mine.jsonl", text), limit=9)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none\.txt: No such file"):
        read_prompts(tmp_path / "none.txt", limit=1)
