"""Ids that three processes derive alike, and which rounds get a span."""

import pytest

from ssd.core.ids import Epoch
from ssd.telemetry.trace_context import (
    FULL_TOKENS,
    ONE_BLOCK_IN,
    format_traceparent,
    has_spans,
    parse_traceparent,
    traceparent_of,
)

HEADER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_header_survives() -> None:
    trace = parse_traceparent(HEADER)
    assert trace is not None
    assert trace.is_sampled
    assert trace.trace_id == HEADER[3:35]
    assert format_traceparent(trace.root) == HEADER


@pytest.mark.parametrize("header", ["", "nonsense", HEADER[:-4], HEADER.replace("0af7", "zzzz")])
def test_no_header_or_a_broken_one_is_no_trace(header: str) -> None:
    assert parse_traceparent(header) is None


def test_an_unsampled_header_is_a_trace_without_spans() -> None:
    trace = parse_traceparent(HEADER[:-1] + "0")
    assert trace is not None
    assert not trace.is_sampled


def test_derived_ids_differ_by_all_that_they_stand_for() -> None:
    trace, again = parse_traceparent(HEADER), parse_traceparent(HEADER)
    assert trace is not None
    assert again is not None
    contexts = [
        trace.decode,
        trace.verify(Epoch(1), 10),
        trace.verify(Epoch(1), 11),
        trace.verify(Epoch(2), 10),
        trace.speculate(Epoch(1), 10, life=1),
        trace.speculate(Epoch(1), 10, life=2),
    ]
    assert len({each.span_id for each in contexts}) == len(contexts)
    assert {each.trace_id for each in contexts} == {trace.root.trace_id}
    assert again.verify(Epoch(1), 10) == contexts[1]


def test_the_first_tokens_have_spans_and_then_whole_blocks_do() -> None:
    prompt_len = 100
    assert all(has_spans(base, prompt_len) for base in range(100, 100 + FULL_TOKENS))
    later = [has_spans(base, prompt_len) for base in range(2048, 2048 + 16384)]
    assert sum(later) == len(later) // ONE_BLOCK_IN


def test_a_binary_header_is_not_ours() -> None:
    assert traceparent_of({"traceparent": b"\x00"}) == ""
    assert traceparent_of({}) == ""
    assert traceparent_of({"traceparent": HEADER}) == HEADER
