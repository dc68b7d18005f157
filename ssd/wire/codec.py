"""Core values to protobuf and back. Nothing further in sees protobuf.

Decoding checks shapes, since a peer's columns may not match each other; what a field may hold
beyond that is the core's business.
"""

from dataclasses import asdict

from ssd.core.credit import Credit
from ssd.core.errors import InvalidRequest, ProtocolError
from ssd.core.expansion import Expansion
from ssd.core.ids import Epoch, PrefixKey, SessionId
from ssd.core.ledger import Ledger, LedgerEntry
from ssd.core.messages import (
    Close,
    Commit,
    Finished,
    FinishReason,
    Grow,
    Need,
    Open,
    Rates,
    Refused,
    Resume,
)
from ssd.core.mode import Mode
from ssd.v1 import common_pb2, drafter_pb2, verifier_pb2
from ssd.wire.feature_codec import decode_features, encode_features
from ssd.wire.law_codec import decode_laws, encode_laws
from ssd.wire.logprob_codec import (
    decode_limits,
    decode_logprobs,
    decode_wanted,
    encode_limits,
    encode_logprobs,
    encode_wanted,
)
from ssd.wire.round_codec import decode_round, decode_spans, encode_round, encode_spans
from ssd.wire.sampling_codec import RULES, decode_rule, decode_sampling, encode_sampling

MODES = {
    Mode.SSD: common_pb2.MODE_SSD,
    Mode.SD: common_pb2.MODE_SD,
    Mode.AR: common_pb2.MODE_AR,
    Mode.SHADOW: common_pb2.MODE_SHADOW,
}
FINISH_REASONS = {
    FinishReason.STOP: common_pb2.FINISH_REASON_STOP,
    FinishReason.LENGTH: common_pb2.FINISH_REASON_LENGTH,
}
_MODES_BACK: dict[int, Mode] = {number: mode for mode, number in MODES.items()}
_FINISH_REASONS_BACK: dict[int, FinishReason] = {
    number: reason for reason, number in FINISH_REASONS.items()
}


def decode_mode(number: int) -> Mode:
    """Raises ProtocolError for a mode this version does not know."""
    if number not in _MODES_BACK:
        raise ProtocolError(f"unknown mode {number}")
    return _MODES_BACK[number]


def decode_finish_reason(number: int) -> FinishReason:
    """Raises ProtocolError for a reason this version does not know."""
    if number not in _FINISH_REASONS_BACK:
        raise ProtocolError(f"unknown finish reason {number}")
    return _FINISH_REASONS_BACK[number]


def encode_open(opening: Open) -> common_pb2.Open:
    params = opening.params
    return common_pb2.Open(
        session_id=opening.session_id,
        epoch=opening.epoch,
        token_ids=opening.token_ids,
        prompt_len=opening.prompt_len,
        max_len=opening.max_len,
        sampling=encode_sampling(params),
        stop_token_ids=sorted(opening.stop_token_ids),
        mode=MODES[opening.mode],
        speculation=encode_limits(opening.speculation),
        logprobs=encode_wanted(opening.logprobs),
        traceparent=opening.traceparent,
        cache_salt=opening.cache_salt,
    )


def decode_open(message: common_pb2.Open) -> Open:
    """Raises ProtocolError when the sampling values are outside their limits."""
    try:
        params = decode_sampling(message.sampling)
        limits = decode_limits(message.speculation)
    except InvalidRequest as error:
        raise ProtocolError(f"session {message.session_id}: {error}") from error
    return Open(
        session_id=SessionId(message.session_id),
        epoch=Epoch(message.epoch),
        token_ids=tuple(message.token_ids),
        prompt_len=message.prompt_len,
        max_len=message.max_len,
        params=params,
        stop_token_ids=frozenset(message.stop_token_ids),
        mode=decode_mode(message.mode),
        speculation=limits,
        logprobs=decode_wanted(message.logprobs),
        traceparent=message.traceparent,
        cache_salt=message.cache_salt if message.HasField("cache_salt") else None,
    )


def encode_close(message: Close) -> common_pb2.Close:
    return common_pb2.Close(session_id=message.session_id, epoch=message.epoch)


def decode_close(message: common_pb2.Close) -> Close:
    return Close(SessionId(message.session_id), Epoch(message.epoch))


def encode_resume(message: Resume) -> common_pb2.Resume:
    return common_pb2.Resume(
        session_id=message.session_id, epoch=message.epoch, have_len=message.have_len
    )


def decode_resume(message: common_pb2.Resume) -> Resume:
    return Resume(SessionId(message.session_id), Epoch(message.epoch), message.have_len)


def encode_commit(message: Commit) -> common_pb2.Commit:
    encoded = common_pb2.Commit(
        session_id=message.session_id,
        epoch=message.epoch,
        base_len=message.base_len,
        base_key=message.base_key,
        token_ids=message.token_ids,
    )
    if message.record is not None:
        encoded.record.CopyFrom(encode_round(message.record))
    if message.growth:
        encoded.growth.CopyFrom(encode_spans(message.growth))
    if message.logprobs:
        encoded.logprobs.CopyFrom(encode_logprobs(message.logprobs))
    if message.prompt_logprobs:
        encoded.prompt_logprobs.CopyFrom(encode_logprobs(message.prompt_logprobs))
    if message.features is not None:
        encoded.features.CopyFrom(encode_features(message.features))
    return encoded


def decode_commit(message: common_pb2.Commit) -> Commit:
    """Raises ProtocolError when columns differ in length, or features are no tensor."""
    return Commit(
        session_id=SessionId(message.session_id),
        epoch=Epoch(message.epoch),
        base_len=message.base_len,
        base_key=PrefixKey(message.base_key),
        token_ids=tuple(message.token_ids),
        record=decode_round(message.record) if message.HasField("record") else None,
        growth=decode_spans(message.growth),
        logprobs=decode_logprobs(message.logprobs),
        prompt_logprobs=decode_logprobs(message.prompt_logprobs),
        features=decode_features(message.features) if message.HasField("features") else None,
    )


def encode_finished(message: Finished) -> verifier_pb2.Finished:
    return verifier_pb2.Finished(
        session_id=message.session_id,
        epoch=message.epoch,
        total_len=message.total_len,
        reason=FINISH_REASONS[message.reason],
    )


def decode_finished(message: verifier_pb2.Finished) -> Finished:
    return Finished(
        session_id=SessionId(message.session_id),
        epoch=Epoch(message.epoch),
        total_len=message.total_len,
        reason=decode_finish_reason(message.reason),
    )


def encode_refused(message: Refused) -> common_pb2.Refused:
    return common_pb2.Refused(
        session_id=message.session_id,
        epoch=message.epoch,
        kind=message.kind,
        message=message.message,
    )


def decode_refused(message: common_pb2.Refused) -> Refused:
    return Refused(
        SessionId(message.session_id), Epoch(message.epoch), message.kind, message.message
    )


def encode_grow(message: Grow) -> drafter_pb2.Grow:
    expansions = message.expansions
    encoded = drafter_pb2.Grow(
        session_id=message.session_id,
        epoch=message.epoch,
        base_len=message.base_len,
        keys=[each.key for each in expansions],
        positions=[each.position for each in expansions],
        num_candidates=[len(each.token_ids) for each in expansions],
        steps=[each.step for each in expansions],
        token_ids=[token_id for each in expansions for token_id in each.token_ids],
        estimates=[estimate for each in expansions for estimate in each.estimates],
        is_exhausted=message.is_exhausted,
    )
    encode_laws(encoded, expansions)
    if message.spans:
        encoded.spans.CopyFrom(encode_spans(message.spans))
    return encoded


def decode_grow(message: drafter_pb2.Grow) -> Grow:
    """Raises ProtocolError when columns differ in length or candidates are miscounted."""
    heads = (message.keys, message.positions, message.num_candidates, message.steps)
    num_candidates = sum(message.num_candidates)
    if len({len(column) for column in heads}) != 1:
        raise ProtocolError("the columns of expansions differ in length")
    if not len(message.token_ids) == len(message.estimates) == num_candidates:
        raise ProtocolError(
            f"{num_candidates} candidates announced, {len(message.token_ids)} tokens and "
            f"{len(message.estimates)} estimates sent"
        )
    return Grow(
        session_id=SessionId(message.session_id),
        epoch=Epoch(message.epoch),
        base_len=message.base_len,
        expansions=decode_laws(message, _decode_expansions(message)),
        is_exhausted=message.is_exhausted,
        spans=decode_spans(message.spans),
    )


def _decode_expansions(message: drafter_pb2.Grow) -> tuple[Expansion, ...]:
    token_ids, estimates = tuple(message.token_ids), tuple(message.estimates)
    expansions = []
    start = 0
    heads = zip(message.keys, message.positions, message.num_candidates, message.steps, strict=True)
    for key, position, count, step in heads:
        end = start + count
        expansions.append(
            Expansion(PrefixKey(key), position, token_ids[start:end], estimates[start:end], step)
        )
        start = end
    return tuple(expansions)


def encode_need(message: Need) -> drafter_pb2.Need:
    return drafter_pb2.Need(
        session_id=message.session_id, epoch=message.epoch, from_len=message.from_len
    )


def decode_need(message: drafter_pb2.Need) -> Need:
    return Need(SessionId(message.session_id), Epoch(message.epoch), message.from_len)


def encode_rates(message: Rates) -> drafter_pb2.Rates:
    return drafter_pb2.Rates(tests=message.tests, matches=message.matches, rule=RULES[message.rule])


def decode_rates(message: drafter_pb2.Rates) -> Rates:
    """Raises ProtocolError for a rule this version does not know."""
    return Rates(tuple(message.tests), tuple(message.matches), decode_rule(message.rule))


def encode_ledger(message: Ledger) -> common_pb2.Ledger:
    entries = message.entries
    return common_pb2.Ledger(
        number=message.number,
        session_ids=[each.session_id for each in entries],
        epochs=[each.epoch for each in entries],
        committed_lens=[each.committed_len for each in entries],
        keys=[each.key for each in entries],
        kv_lens=[each.kv_len for each in entries],
        last_rounds=[each.last_round for each in entries],
        are_paused=[each.is_paused for each in entries],
        credit=None if message.credit is None else common_pb2.Credit(**asdict(message.credit)),
    )


def decode_ledger(message: common_pb2.Ledger) -> Ledger:
    """Raises ProtocolError when columns differ in length."""
    columns = (
        [SessionId(each) for each in message.session_ids],
        [Epoch(each) for each in message.epochs],
        message.committed_lens,
        [PrefixKey(each) for each in message.keys],
        message.kv_lens,
        message.last_rounds,
        message.are_paused or [False] * len(message.session_ids),
    )
    if len({len(column) for column in columns}) != 1:
        raise ProtocolError("the columns of a ledger differ in length")
    entries = tuple(LedgerEntry(*row) for row in zip(*columns, strict=True))
    given = message.credit if message.HasField("credit") else None
    credit = None if given is None else Credit(given.sessions, given.slots, given.num_others)
    return Ledger(message.number, entries, credit)
