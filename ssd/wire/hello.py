"""Capabilities: what a model is, and which peers it may work with."""

from dataclasses import dataclass

from ssd.core.drafter_kind import TRAITS, DrafterKind, DrafterTraits
from ssd.core.errors import ProtocolError
from ssd.v1 import common_pb2

PROTOCOL_VERSION = 1


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a worker says of itself when it registers and when a stream opens."""

    instance_id: str
    model_name: str
    fingerprint: str
    vocabulary_digest: str
    special_digest: str
    vocab_size: int
    context_len: int
    eos_token_ids: tuple[int, ...]
    dtype: str
    drafter: DrafterTraits | None = None
    """Of a drafter, what it can do; None of a verifier, and of older drafters."""


def encode_hello(capabilities: Capabilities) -> common_pb2.Hello:
    return common_pb2.Hello(
        protocol_version=PROTOCOL_VERSION,
        instance_id=capabilities.instance_id,
        model_name=capabilities.model_name,
        fingerprint=capabilities.fingerprint,
        vocabulary_digest=capabilities.vocabulary_digest,
        special_digest=capabilities.special_digest,
        vocab_size=capabilities.vocab_size,
        context_len=capabilities.context_len,
        eos_token_ids=capabilities.eos_token_ids,
        dtype=capabilities.dtype,
        drafter=_encode_traits(capabilities.drafter),
    )


def decode_hello(message: common_pb2.Hello) -> Capabilities:
    """Raises ProtocolError when the peer speaks another version, or drafts in an unknown way."""
    check_version(message)
    return Capabilities(
        instance_id=message.instance_id,
        model_name=message.model_name,
        fingerprint=message.fingerprint,
        vocabulary_digest=message.vocabulary_digest,
        special_digest=message.special_digest,
        vocab_size=message.vocab_size,
        context_len=message.context_len,
        eos_token_ids=tuple(message.eos_token_ids),
        dtype=message.dtype,
        drafter=_decode_traits(message.drafter) if message.HasField("drafter") else None,
    )


def _encode_traits(traits: DrafterTraits | None) -> common_pb2.DrafterTraits | None:
    if traits is None:
        return None
    return common_pb2.DrafterTraits(
        kind=traits.kind,
        gives_logits=traits.gives_logits,
        branches=traits.branches,
        needs_features=traits.needs_features,
        maps_vocabulary=traits.maps_vocabulary,
    )


def _decode_traits(message: common_pb2.DrafterTraits) -> DrafterTraits:
    try:
        kind = DrafterKind(message.kind)
    except ValueError as error:
        raise ProtocolError(f"a drafter of kind {message.kind!r} is unknown here") from error
    return DrafterTraits(
        kind,
        gives_logits=message.gives_logits,
        branches=message.branches,
        needs_features=message.needs_features,
        maps_vocabulary=message.maps_vocabulary,
        has_weights=TRAITS[kind].has_weights,
    )


def check_version(message: common_pb2.Hello) -> None:
    """Raises ProtocolError when the peer speaks another version of the protocol."""
    if message.protocol_version != PROTOCOL_VERSION:
        raise ProtocolError(
            f"the peer speaks protocol version {message.protocol_version}, "
            f"this process {PROTOCOL_VERSION}"
        )


def why_not_a_pair(draft: Capabilities, target: Capabilities) -> str | None:
    """Why the draft model cannot draft for the target, in a sentence; None when it can."""
    if draft.vocabulary_digest != target.vocabulary_digest:
        return (
            f"draft {draft.model_name} and target {target.model_name} have different tokenizers "
            f"({draft.vocabulary_digest[:12]} and {target.vocabulary_digest[:12]})"
        )
    if draft.drafter is not None and draft.drafter.needs_features:
        return f"drafter {draft.model_name} needs features of the target, which are not sent here"
    return None
