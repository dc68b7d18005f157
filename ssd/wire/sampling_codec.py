"""Sampling parameters to protobuf and back."""

from collections.abc import Sequence
from itertools import accumulate

from ssd.core.errors import ProtocolError
from ssd.core.rule import Rule
from ssd.core.sampling_params import SamplingParams
from ssd.v1 import common_pb2

RULES = {
    Rule.COUPLED: common_pb2.RULE_COUPLED,
    Rule.RATIO: common_pb2.RULE_RATIO,
}
_RULES_BACK: dict[int, Rule] = {number: rule for rule, number in RULES.items()}


def decode_rule(number: int) -> Rule:
    """Raises ProtocolError for a rule this version does not know; peers of old say none."""
    if number == common_pb2.RULE_UNSPECIFIED:
        return Rule.COUPLED
    if number not in _RULES_BACK:
        raise ProtocolError(f"unknown rule {number}")
    return _RULES_BACK[number]


def encode_sampling(params: SamplingParams) -> common_pb2.Sampling:
    return common_pb2.Sampling(
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        seed=params.seed,
        rule=RULES[params.rule],
        repetition_penalty=params.repetition_penalty,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        biased_ids=[token_id for token_id, _ in params.logit_bias],
        biases=[bias for _, bias in params.logit_bias],
        banned_token_ids=[each for sequence in params.banned_sequences for each in sequence],
        banned_lens=[len(sequence) for sequence in params.banned_sequences],
        min_tokens=params.min_tokens,
        end_token_ids=params.end_token_ids,
    )


def decode_sampling(message: common_pb2.Sampling) -> SamplingParams:
    """Older peers leave the later fields out, which switches those parameters off.

    Raises:
        ProtocolError: columns differ in length.
        InvalidRequest: a value is outside its limits.
    """
    if len(message.biased_ids) != len(message.biases):
        raise ProtocolError(f"{len(message.biased_ids)} biased ids, {len(message.biases)} biases")
    return SamplingParams(
        temperature=message.temperature,
        top_k=message.top_k,
        top_p=message.top_p,
        min_p=message.min_p,
        seed=message.seed,
        rule=decode_rule(message.rule),
        repetition_penalty=(
            message.repetition_penalty if message.HasField("repetition_penalty") else 1.0
        ),
        presence_penalty=message.presence_penalty,
        frequency_penalty=message.frequency_penalty,
        logit_bias=tuple(zip(message.biased_ids, message.biases, strict=True)),
        banned_sequences=_split(message.banned_token_ids, message.banned_lens),
        min_tokens=message.min_tokens,
        end_token_ids=tuple(message.end_token_ids),
    )


def _split(token_ids: Sequence[int], lengths: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    if sum(lengths) != len(token_ids):
        raise ProtocolError(f"{len(token_ids)} banned ids, {sum(lengths)} announced")
    ends = list(accumulate(lengths))
    return tuple(
        tuple(token_ids[end - length : end]) for end, length in zip(ends, lengths, strict=True)
    )
