"""Records of rounds and growth steps to protobuf and back."""

from collections.abc import Sequence

from ssd.core.errors import ProtocolError
from ssd.core.rounds import GrowthSpan, Lookup, RoundRecord, ShadowRound, WhyPlain
from ssd.v1 import common_pb2
from ssd.wire.drafter_codec import decode_parts, encode_parts

LOOKUPS = {
    Lookup.HIT: common_pb2.LOOKUP_HIT,
    Lookup.MISS_ABSENT: common_pb2.LOOKUP_MISS_ABSENT,
    Lookup.MISS_KEY: common_pb2.LOOKUP_MISS_KEY,
    Lookup.MISS_LATE: common_pb2.LOOKUP_MISS_LATE,
    Lookup.LAST: common_pb2.LOOKUP_LAST,
}
WHYS_PLAIN = {
    WhyPlain.MODE: common_pb2.WHY_PLAIN_MODE,
    WhyPlain.NO_DRAFTER: common_pb2.WHY_PLAIN_NO_DRAFTER,
    WhyPlain.NOT_READY: common_pb2.WHY_PLAIN_NOT_READY,
    WhyPlain.TOO_DEAR: common_pb2.WHY_PLAIN_TOO_DEAR,
    WhyPlain.LAST_TOKEN: common_pb2.WHY_PLAIN_LAST_TOKEN,
    WhyPlain.PROBE: common_pb2.WHY_PLAIN_PROBE,
    WhyPlain.PAUSED: common_pb2.WHY_PLAIN_PAUSED,
}
_WHYS_PLAIN_BACK: dict[int, WhyPlain] = {number: why for why, number in WHYS_PLAIN.items()}
_LOOKUPS_BACK: dict[int, Lookup] = {number: lookup for lookup, number in LOOKUPS.items()}


def encode_round(record: RoundRecord) -> common_pb2.RoundRecord:
    encoded = common_pb2.RoundRecord(
        round_id=record.round_id,
        base_len=record.base_len,
        launch_ns=record.launch_ns,
        end_ns=record.end_ns,
        wait_ns=record.wait_ns,
        num_proposed=record.num_proposed,
        num_accepted=record.num_accepted,
        num_tested=record.num_tested,
        num_batch_rows=record.num_batch_rows,
        lookup=LOOKUPS[record.lookup],
        verified_steps=record.verified_steps,
        why_plain=WHYS_PLAIN[record.why_plain] if record.why_plain is not None else None,
        tree_depth=record.tree_depth,
        num_cached=record.num_cached,
        shadow=None if record.shadow is None else _encode_shadow(record.shadow),
    )
    encode_parts(encoded, record.drafters)
    return encoded


def decode_round(message: common_pb2.RoundRecord) -> RoundRecord:
    """Raises ProtocolError for an unknown lookup, or columns that differ in length."""
    return RoundRecord(
        round_id=message.round_id,
        base_len=message.base_len,
        launch_ns=message.launch_ns,
        end_ns=message.end_ns,
        wait_ns=message.wait_ns,
        num_proposed=message.num_proposed,
        num_accepted=message.num_accepted,
        num_tested=message.num_tested,
        num_batch_rows=message.num_batch_rows,
        lookup=_decode_lookup(message.lookup),
        verified_steps=tuple(message.verified_steps),
        why_plain=_WHYS_PLAIN_BACK.get(message.why_plain),
        tree_depth=message.tree_depth,
        num_cached=message.num_cached,
        drafters=decode_parts(message),
        shadow=_decode_shadow(message.shadow) if message.HasField("shadow") else None,
    )


def _decode_lookup(number: int) -> Lookup:
    if number not in _LOOKUPS_BACK:
        raise ProtocolError(f"unknown lookup {number}")
    return _LOOKUPS_BACK[number]


def _encode_shadow(shadow: ShadowRound) -> common_pb2.ShadowRound:
    return common_pb2.ShadowRound(
        num_tokens=shadow.num_tokens,
        num_proposed=shadow.num_proposed,
        num_accepted=shadow.num_accepted,
        num_tested=shadow.num_tested,
        lookup=LOOKUPS[shadow.lookup],
    )


def _decode_shadow(message: common_pb2.ShadowRound) -> ShadowRound:
    return ShadowRound(
        num_tokens=message.num_tokens,
        num_proposed=message.num_proposed,
        num_accepted=message.num_accepted,
        num_tested=message.num_tested,
        lookup=_decode_lookup(message.lookup),
    )


def encode_spans(spans: Sequence[GrowthSpan]) -> common_pb2.GrowthSpans:
    return common_pb2.GrowthSpans(
        steps=[span.step for span in spans],
        base_lens=[span.base_len for span in spans],
        start_ns=[span.start_ns for span in spans],
        end_ns=[span.end_ns for span in spans],
        num_rows=[span.num_rows for span in spans],
    )


def decode_spans(message: common_pb2.GrowthSpans) -> tuple[GrowthSpan, ...]:
    """Raises ProtocolError when columns differ in length."""
    columns = (
        message.steps,
        message.base_lens,
        message.start_ns,
        message.end_ns,
        message.num_rows,
    )
    if len({len(column) for column in columns}) != 1:
        raise ProtocolError("the columns of growth spans differ in length")
    return tuple(GrowthSpan(*row) for row in zip(*columns, strict=True))
