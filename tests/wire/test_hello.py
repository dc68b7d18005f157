"""H10: what peers say of themselves, and who may work with whom."""

from dataclasses import replace

import pytest

from ssd.core.drafter_kind import TRAITS, DrafterKind, DrafterTraits
from ssd.core.errors import ProtocolError
from ssd.v1 import common_pb2
from ssd.wire.hello import (
    PROTOCOL_VERSION,
    Capabilities,
    check_version,
    decode_hello,
    encode_hello,
    why_not_a_pair,
)

TARGET = Capabilities("i", "target", "f", "a" * 64, "b" * 64, 100, 512, (1, 2), "fp32")


def test_capabilities_survive_the_wire() -> None:
    encoded = encode_hello(TARGET).SerializeToString()
    assert decode_hello(common_pb2.Hello.FromString(encoded)) == TARGET


@pytest.mark.parametrize("traits", TRAITS.values(), ids=lambda each: each.kind)
def test_what_a_drafter_can_do_survives_the_wire(traits: DrafterTraits) -> None:
    draft = replace(TARGET, drafter=replace(traits, needs_features=True))
    encoded = encode_hello(draft).SerializeToString()
    assert decode_hello(common_pb2.Hello.FromString(encoded)) == draft


def test_a_drafter_of_an_unknown_kind_is_refused_by_name() -> None:
    hello = encode_hello(TARGET)
    hello.drafter.kind = "oracle"
    with pytest.raises(ProtocolError, match="'oracle' is unknown"):
        decode_hello(hello)


def test_a_drafter_that_needs_features_is_refused_where_none_are_sent() -> None:
    needy = replace(TRAITS[DrafterKind.MODEL], needs_features=True)
    reason = why_not_a_pair(replace(TARGET, drafter=needy), TARGET)
    assert reason is not None
    assert "needs features" in reason


@pytest.mark.parametrize("version", [0, PROTOCOL_VERSION + 1])
def test_another_version_is_refused_with_both_numbers(version: int) -> None:
    with pytest.raises(ProtocolError, match=f"version {version}, this process {PROTOCOL_VERSION}"):
        check_version(common_pb2.Hello(protocol_version=version))


def test_equal_tokenizers_make_a_pair_whatever_else_differs() -> None:
    draft = replace(TARGET, model_name="draft", vocab_size=108, context_len=64, dtype="bf16")
    assert why_not_a_pair(replace(draft, special_digest="c" * 64), TARGET) is None


def test_different_tokenizers_make_none_and_both_are_named() -> None:
    draft = replace(TARGET, model_name="draft", vocabulary_digest="d" * 64)
    reason = why_not_a_pair(draft, TARGET)
    assert reason is not None
    assert "draft draft" in reason
    assert "target target" in reason
