"""docs/api.md says what the protos say, and docs/coming-from.md names settings that exist."""

import re
from pathlib import Path

from scripts.api_docs import PAGE, page
from ssd.config import settings
from ssd.v1 import generation_pb2

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_the_reference_is_that_of_the_protos() -> None:
    text = PAGE.read_text("utf-8")
    assert text == page(text), "run scripts/api_docs.py (make proto)"


def test_every_field_of_a_request_is_described() -> None:
    text = PAGE.read_text("utf-8")
    request = text[text.index("### GenerateRequest") : text.index("### GenerateResponse")]
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\| (.*) \|$", request, re.MULTILINE))
    names = [each.name for each in generation_pb2.GenerateRequest.DESCRIPTOR.fields]
    assert list(rows) == names
    assert all(rows.values())


def test_the_settings_that_others_are_compared_with_exist() -> None:
    text = (DOCS / "coming-from.md").read_text("utf-8")
    ours = set(settings())
    sections = {key.partition(".")[0] for key in ours}
    named = {
        name
        for name in re.findall(r"`([a-z_]+\.[a-z_]+)`", text)
        if name.partition(".")[0] in sections and name != "speculation.max_nodes"
    } - {"speculation.max_depth", "api.md"}
    assert len(named) > 10
    assert named <= ours


def test_the_fields_of_a_request_that_others_are_compared_with_exist() -> None:
    text = (DOCS / "coming-from.md").read_text("utf-8")
    ours = {each.name for each in generation_pb2.GenerateRequest.DESCRIPTOR.fields}
    for name in ("logprobs", "top_logprobs", "prompt_logprobs", "bad_words", "include_stop"):
        assert f"`{name}`" in text
        assert name in ours
    limits = generation_pb2.GenerateRequest().speculation.DESCRIPTOR
    assert {each.name for each in limits.fields} == {"max_nodes", "max_depth", "drafters"}
