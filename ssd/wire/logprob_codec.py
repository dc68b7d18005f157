"""Log-probabilities to packed columns and back."""

from collections.abc import Sequence

from ssd.core.drafter_kind import kinds_of
from ssd.core.errors import InvalidRequest, ProtocolError
from ssd.core.logprobs import LogprobsWanted, TokenLogprobs
from ssd.core.speculation_limits import SpeculationLimits
from ssd.v1 import common_pb2


def encode_logprobs(entries: Sequence[TokenLogprobs]) -> common_pb2.Logprobs:
    return common_pb2.Logprobs(
        logprobs=[each.logprob for each in entries],
        num_top=[len(each.top) for each in entries],
        top_token_ids=[token_id for each in entries for token_id, _ in each.top],
        top_logprobs=[logprob for each in entries for _, logprob in each.top],
    )


def decode_logprobs(message: common_pb2.Logprobs) -> tuple[TokenLogprobs, ...]:
    """Raises ProtocolError when columns differ in length."""
    num_top = sum(message.num_top)
    if len(message.logprobs) != len(message.num_top) or not (
        len(message.top_token_ids) == len(message.top_logprobs) == num_top
    ):
        raise ProtocolError("the columns of log-probabilities differ in length")
    entries, start = [], 0
    for logprob, count in zip(message.logprobs, message.num_top, strict=True):
        top = slice(start, start + count)
        pairs = zip(message.top_token_ids[top], message.top_logprobs[top], strict=True)
        entries.append(TokenLogprobs(logprob, tuple(pairs)))
        start += count
    return tuple(entries)


def encode_wanted(wanted: LogprobsWanted) -> common_pb2.LogprobsWanted:
    return common_pb2.LogprobsWanted(output_top=wanted.output_top, prompt_top=wanted.prompt_top)


def decode_wanted(message: common_pb2.LogprobsWanted) -> LogprobsWanted:
    """Raises ProtocolError when a number is outside its limits."""
    try:
        return LogprobsWanted(
            output_top=message.output_top if message.HasField("output_top") else None,
            prompt_top=message.prompt_top if message.HasField("prompt_top") else None,
        )
    except InvalidRequest as error:
        raise ProtocolError(str(error)) from error


def encode_limits(limits: SpeculationLimits) -> common_pb2.SpeculationLimits:
    return common_pb2.SpeculationLimits(
        max_nodes=limits.max_nodes,
        max_depth=limits.max_depth,
        drafters=sorted(limits.drafters or ()),
    )


def decode_limits(message: common_pb2.SpeculationLimits) -> SpeculationLimits:
    """Raises InvalidRequest for a bound of 0, or a drafter that there is not."""
    kinds = kinds_of(message.drafters, field="speculation.drafters")
    return SpeculationLimits(
        max_nodes=message.max_nodes if message.HasField("max_nodes") else None,
        max_depth=message.max_depth if message.HasField("max_depth") else None,
        drafters=kinds or None,
    )
