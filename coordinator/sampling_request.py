"""The sampling part of a client's request, checked and with every parameter filled in."""

import secrets
from collections.abc import Iterable

from coordinator.served_model import ServedModel
from coordinator.text_codec import TextCodec
from ssd.core.errors import InvalidRequest
from ssd.core.rule import Rule
from ssd.core.sampling_params import SamplingParams, check_something_is_left
from ssd.v1 import generation_pb2

MAX_STOP_TOKEN_IDS = 64
MAX_BAD_WORDS = 512
MAX_BAD_WORD_LEN = 256

Sequences = tuple[tuple[int, ...], ...]


def sampling_params(
    request: generation_pb2.GenerateRequest, model: ServedModel, *, max_tokens: int, rule: Rule
) -> SamplingParams:
    """Raises InvalidRequest naming the field and the limit."""
    if request.min_tokens > max_tokens:
        raise InvalidRequest(
            f"min_tokens must be at most max_tokens ({max_tokens}), not {request.min_tokens}",
            "min_tokens",
        )
    check_vocabulary("logit_bias", request.logit_bias, model)
    repetition = request.repetition_penalty if request.HasField("repetition_penalty") else 1.0
    params = SamplingParams(
        temperature=request.temperature if request.HasField("temperature") else 1.0,
        top_k=request.top_k,
        top_p=request.top_p if request.HasField("top_p") else 1.0,
        min_p=request.min_p,
        seed=request.seed if request.HasField("seed") else secrets.randbits(64),
        rule=rule,
        repetition_penalty=repetition,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        logit_bias=tuple(sorted(request.logit_bias.items())),
        banned_sequences=_banned_sequences(request, model),
        min_tokens=request.min_tokens,
        end_token_ids=_end_token_ids(request, model) if request.min_tokens else (),
    )
    check_something_is_left(params, vocab_size=model.target.vocab_size)
    return params


def stop_token_ids(request: generation_pb2.GenerateRequest, model: ServedModel) -> frozenset[int]:
    """What ends the text: the request's own ids and, unless it ignores them, the model's.

    Raises:
        InvalidRequest: too many ids, or one outside the vocabulary.
    """
    if len(request.stop_token_ids) > MAX_STOP_TOKEN_IDS:
        raise InvalidRequest(
            f"stop_token_ids may name {MAX_STOP_TOKEN_IDS} ids, not {len(request.stop_token_ids)}",
            "stop_token_ids",
        )
    check_vocabulary("stop_token_ids", request.stop_token_ids, model)
    own = () if request.ignore_eos else model.target.eos_token_ids
    return frozenset(request.stop_token_ids) | frozenset(own)


def check_vocabulary(field: str, token_ids: Iterable[int], model: ServedModel) -> None:
    """Raises InvalidRequest when an id is outside the vocabulary."""
    size = model.target.vocab_size
    bad = next((each for each in token_ids if each >= size), None)  # the wire's ids are unsigned
    if bad is not None:
        raise InvalidRequest(f"{field} holds {bad}, outside the vocabulary of {size} ids", field)


def _end_token_ids(request: generation_pb2.GenerateRequest, model: ServedModel) -> tuple[int, ...]:
    """The model's end tokens too, even where they are ignored: they would end what is meant."""
    return tuple(sorted({*request.stop_token_ids, *model.target.eos_token_ids}))


def _banned_sequences(request: generation_pb2.GenerateRequest, model: ServedModel) -> Sequences:
    if len(request.bad_words) > MAX_BAD_WORDS:
        raise InvalidRequest(
            f"bad_words may have {MAX_BAD_WORDS} entries, not {len(request.bad_words)}",
            "bad_words",
        )
    sequences: dict[tuple[int, ...], None] = {}  # in order, once each
    for word in request.bad_words:
        if not 0 < len(word.strip()) <= len(word) <= MAX_BAD_WORD_LEN:
            raise InvalidRequest(
                f"each of bad_words must be 1 to {MAX_BAD_WORD_LEN} characters, not only spaces",
                "bad_words",
            )
        sequences |= dict.fromkeys(_spellings(word, model.codec))
    for each in request.bad_token_ids:
        check_vocabulary("bad_token_ids", each.token_ids, model)
        if not each.token_ids:
            raise InvalidRequest("an entry of bad_token_ids is empty", "bad_token_ids")
        sequences[tuple(each.token_ids)] = None
    for sequence in sequences:
        check_vocabulary("bad_words", sequence, model)
    return tuple(sequences)


def _spellings(word: str, codec: TextCodec) -> list[tuple[int, ...]]:
    """The word's tokens at the start of a text, and after a space where those are others."""
    bare = codec.encode_piece(word)
    spaced = codec.encode_piece(" " + word.lstrip())
    return [bare] if spaced[-len(bare) :] == bare else [bare, spaced]
