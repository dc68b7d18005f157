"""Only ids travel: no message of a stream grows with the vocabulary."""

from dataclasses import replace

import pytest
from google.protobuf.descriptor import Descriptor

from ssd.core.edge_rates import EdgeRates
from ssd.core.expansion import Expansion
from ssd.core.growth import GrowthLimits
from ssd.core.ids import Epoch, PrefixKey, SessionId
from ssd.core.keys import MODULUS
from ssd.core.messages import Commit, Grow, Rates
from ssd.core.rounds import GrowthSpan, Lookup, RoundRecord
from ssd.core.sparse_law import SparseLaw
from ssd.v1 import drafter_pb2, verifier_pb2
from ssd.wire.envelopes import encode_drafter_orders, encode_drafter_reports

VOCAB_SIZE = 50_000
FEW_KILOBYTES = 4_096
SESSION = SessionId("0123456789abcdef0123456789abcdef-0")
NOW_NS = 10**15
SPARSE_LAW = ("ssd.v1.Grow.law_token_ids", "ssd.v1.Grow.law_weights")
"""Of rule `ratio`: as long as the drafter's `law_size`, whatever the vocabulary."""
FEATURES = "ssd.v1.Tensor.data"
"""Of a drafter that needs them: as wide as the target's hidden states, whatever the vocabulary."""
LIMITS = GrowthLimits()


def spans(count: int) -> tuple[GrowthSpan, ...]:
    return tuple(GrowthSpan(10**6, 10**5, NOW_NS, NOW_NS, 200) for _ in range(count))


def grow(num_expansions: int, num_spans: int) -> Grow:
    expansion = Expansion(
        key=PrefixKey(MODULUS - 1),
        position=10**5,
        token_ids=(VOCAB_SIZE - 1,) * LIMITS.num_candidates,
        estimates=(0.123,) * LIMITS.num_candidates,
        step=10**6,
    )
    return Grow(
        SESSION, Epoch(10**13), 10**5, (expansion,) * num_expansions, spans=spans(num_spans)
    )


def test_what_one_growth_step_finds_is_a_few_kilobytes() -> None:
    found = grow(LIMITS.frontier, 1)
    assert encode_drafter_reports([found]).ByteSize() < FEW_KILOBYTES


def test_a_law_costs_eight_bytes_an_id_and_a_coupled_expansion_none() -> None:
    law = SparseLaw.pack(range(64), (0.5,) * 64)
    plain = grow(LIMITS.frontier, 1)
    with_laws = replace(
        plain,
        expansions=tuple(replace(each, num_proposals=1, law=law) for each in plain.expansions),
    )
    extra = _size(with_laws) - _size(plain)
    assert 8 * 64 * LIMITS.frontier <= extra < 8 * 64 * LIMITS.frontier + 64


def _size(message: Grow) -> int:
    return encode_drafter_reports([message]).ByteSize()


def test_the_largest_growth_message_is_less_than_a_byte_per_id() -> None:
    """All that may be live in a session, sent at once."""
    found = grow(LIMITS.max_nodes, LIMITS.max_nodes)
    assert encode_drafter_reports([found]).ByteSize() < VOCAB_SIZE / 2


def test_the_largest_commit_is_a_few_kilobytes() -> None:
    """A whole tree's depth accepted, with the round's figures."""
    record = RoundRecord(
        10**6, 10**5, NOW_NS, NOW_NS, NOW_NS, 8, 8, 8, 256, Lookup.MISS_LATE, (10**6,) * 8
    )
    commit = Commit(
        SESSION,
        Epoch(10**13),
        10**5,
        PrefixKey(MODULUS - 1),
        (VOCAB_SIZE - 1,) * (LIMITS.max_depth + 1),
        record,
        spans(32),
    )
    assert encode_drafter_orders([commit]).ByteSize() < FEW_KILOBYTES


def test_rates_do_not_depend_on_the_vocabulary() -> None:
    counts = EdgeRates()
    rates = Rates(tuple(counts.tests), tuple(counts.matches))
    assert encode_drafter_orders([rates]).ByteSize() < FEW_KILOBYTES


@pytest.mark.parametrize(
    "envelope",
    [
        drafter_pb2.SpeculateRequest,
        drafter_pb2.SpeculateResponse,
        verifier_pb2.ServeRequest,
        verifier_pb2.ServeResponse,
    ],
)
def test_no_field_of_a_stream_is_named_for_vocabulary_sized_data(envelope: type) -> None:
    names = set(field_names(envelope.DESCRIPTOR))  # type: ignore[attr-defined]
    names -= {"logprobs", "prompt_logprobs", "top_logprobs"}  # 20 ids a token, where asked for
    names -= {"gives_logits"}  # whether it could
    forbidden = ("logits", "logprob", "probabilit", "tensor", "mask")
    assert names
    assert not [name for name in names if any(word in name for word in forbidden)]


def field_names(message: Descriptor) -> list[str]:
    names = []
    for field in message.fields:
        names.append(field.name)
        if field.message_type is not None:
            names += field_names(field.message_type)
        is_known = field.full_name in (*SPARSE_LAW, FEATURES)
        assert is_known or field.type != field.TYPE_BYTES, f"{field.full_name} may hide a tensor"
    return names
