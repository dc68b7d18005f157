"""A client's request, checked and with every parameter filled in.

Nothing is adjusted in silence: what does not fit is refused with the field's name and its limit.
"""

import uuid
from dataclasses import dataclass, replace

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from coordinator.api_keys import NOBODY, KeyOwner
from coordinator.sampling_request import check_vocabulary, sampling_params, stop_token_ids
from coordinator.served_model import ServedModel
from ssd.core.choice_seed import choice_seed
from ssd.core.client_session import Admission
from ssd.core.drafter_kind import NO_KINDS, DrafterKind
from ssd.core.errors import InvalidRequest, ProtocolError
from ssd.core.logprobs import LogprobsWanted
from ssd.core.mode import Mode
from ssd.core.rule import Rule
from ssd.core.session_names import request_id_of, session_id_of
from ssd.core.speculation_limits import SpeculationLimits
from ssd.core.stop_rules import StopRules
from ssd.v1 import generation_pb2
from ssd.wire.codec import decode_mode
from ssd.wire.logprob_codec import decode_limits
from ssd.wire.sampling_codec import RULES, decode_rule

MAX_REQUEST_ID_LEN = 128
MAX_CHOICES = 128
MAX_MESSAGES = 1_024
MAX_PROMPT_LOGPROBS = 400_000


@dataclass(frozen=True, slots=True)
class RequestDefaults:
    """What the operator decided for requests that do not say; None leaves it to the context."""

    mode: Mode
    allow_request_mode: bool
    rule: Rule
    max_tokens: int | None
    ordinal: int
    max_choices: int  # more could never be admitted together
    drafters: frozenset[DrafterKind] = NO_KINDS  # those named; none: whichever there are
    peers: tuple[str, ...] = ()  # addresses of all coordinators, by ordinal


def admit(
    request: generation_pb2.GenerateRequest,
    model: ServedModel,
    defaults: RequestDefaults,
    owner: KeyOwner = NOBODY,
) -> tuple[Admission, ...]:
    """One admission for each of the request's answers, the first under the request's own id.

    Raises:
        InvalidRequest: names the field and the limit.
    """
    refuse_unknown_fields(request)
    num_choices = _num_choices(request, defaults)
    prompt = _prompt(request, model)
    max_tokens = _max_tokens(request, len(prompt), model, defaults)
    first = Admission(
        session_id=session_id_of(owner.name, _request_id(request, defaults)),
        prompt_token_ids=prompt,
        max_len=len(prompt) + max_tokens,
        params=sampling_params(
            request, model, max_tokens=max_tokens, rule=_rule(request, defaults)
        ),
        stop_token_ids=stop_token_ids(request, model),
        mode=_mode(request, defaults),
        stop_rules=StopRules(tuple(request.stop), request.include_stop),
        priority=request.priority,
        speculation=_speculation(request, defaults),
        logprobs=_logprobs_wanted(request, model, prompt_len=len(prompt)),
        # Log-probabilities of a prompt need every row of it to be run.
        cache_salt=None if request.HasField("prompt_logprobs") else owner.cache_salt,
    )
    return (first, *(_another(first, index, owner) for index in range(1, num_choices)))


def _logprobs_wanted(
    request: generation_pb2.GenerateRequest, model: ServedModel, *, prompt_len: int
) -> LogprobsWanted:
    if request.HasField("top_logprobs") and not request.logprobs:
        raise InvalidRequest("top_logprobs needs logprobs to be true", "top_logprobs")
    prompt_top = request.prompt_logprobs if request.HasField("prompt_logprobs") else None
    wanted = LogprobsWanted(request.top_logprobs if request.logprobs else None, prompt_top)
    for field in ("top_logprobs", "prompt_logprobs"):
        if getattr(request, field) > model.target.vocab_size:
            raise InvalidRequest(
                f"{field} must be at most the vocabulary of {model.target.vocab_size} ids, "
                f"not {getattr(request, field)}",
                field,
            )
    # They come in one message, which has a largest size.
    if prompt_top is not None and prompt_len * (prompt_top + 1) > MAX_PROMPT_LOGPROBS:
        raise InvalidRequest(
            f"prompt_logprobs of {prompt_top} for {prompt_len} tokens are more than "
            f"{MAX_PROMPT_LOGPROBS} numbers",
            "prompt_logprobs",
        )
    return wanted


def _another(first: Admission, index: int, owner: KeyOwner) -> Admission:
    request_id = request_id_of(first.session_id, owner.name)
    return replace(
        first,
        session_id=session_id_of(owner.name, request_id, index),
        params=replace(first.params, seed=choice_seed(first.params.seed, index)),
        logprobs=replace(first.logprobs, prompt_top=None),
    )


def _num_choices(request: generation_pb2.GenerateRequest, defaults: RequestDefaults) -> int:
    if not request.HasField("n"):
        return 1
    limit = min(MAX_CHOICES, defaults.max_choices)
    if not 1 <= request.n <= limit:
        raise InvalidRequest(f"n must be between 1 and {limit}, not {request.n}", "n")
    return request.n


def refuse_unknown_fields(request: Message) -> None:
    """Refuse what this version does not know: a parameter is never ignored in silence.

    Raises:
        InvalidRequest: the request has a field of a newer version.
    """
    unknown = UnknownFieldSet(request)
    if len(unknown):
        number = unknown[0].field_number
        name = request.DESCRIPTOR.name
        raise InvalidRequest(f"field number {number} of {name} is not supported here", str(number))


def text_token_ids(text: str, model: ServedModel) -> tuple[int, ...]:
    """Raises InvalidRequest when the text cannot fit the context."""
    _check_len("text", len(text), model)
    return model.codec.encode(text)


def chat_token_ids(chat: generation_pb2.ChatMessages, model: ServedModel) -> tuple[int, ...]:
    """The conversation as the model's chat template writes it.

    Raises:
        InvalidRequest: there is no template, it refuses, or the text cannot fit the context.
    """
    if not 1 <= len(chat.messages) <= MAX_MESSAGES:
        raise InvalidRequest(
            f"chat must have 1 to {MAX_MESSAGES} messages, not {len(chat.messages)}", "chat"
        )
    _check_len("chat", sum(len(each.content) for each in chat.messages), model)
    prompt = model.codec.chat.render(chat.messages)
    _check_len("chat", len(prompt), model)
    return model.codec.encode_piece(prompt)  # the template has put the special tokens in


def _check_len(field: str, num_characters: int, model: ServedModel) -> None:
    """Hardly a token is longer than this; the bound is on the tokenizer's work."""
    context_len = model.target.context_len
    if num_characters > 64 * context_len:
        raise InvalidRequest(
            f"{field} of {num_characters} characters cannot fit a context of {context_len} tokens",
            field,
        )


def _prompt(request: generation_pb2.GenerateRequest, model: ServedModel) -> tuple[int, ...]:
    context_len = model.target.context_len
    match request.WhichOneof("prompt"):
        case "token_ids":
            token_ids = tuple(request.token_ids.token_ids)
            check_vocabulary("token_ids", token_ids, model)
        case "chat":
            token_ids = chat_token_ids(request.chat, model)
        case _:
            token_ids = text_token_ids(request.text, model)
    if not token_ids:
        raise InvalidRequest(
            "the prompt is empty: give text, token_ids or chat of at least one token", "prompt"
        )
    if len(token_ids) >= context_len:
        raise InvalidRequest(
            f"the prompt of {len(token_ids)} tokens leaves no room in a context of {context_len}",
            "prompt",
        )
    return token_ids


def _max_tokens(
    request: generation_pb2.GenerateRequest,
    prompt_len: int,
    model: ServedModel,
    defaults: RequestDefaults,
) -> int:
    room = model.target.context_len - prompt_len
    if not request.HasField("max_tokens"):
        return min(room, defaults.max_tokens or room)
    if not 1 <= request.max_tokens <= room:
        raise InvalidRequest(
            f"max_tokens must be between 1 and {room}, what {prompt_len} prompt tokens leave of a "
            f"context of {model.target.context_len}, not {request.max_tokens}",
            "max_tokens",
        )
    return request.max_tokens


def _mode(request: generation_pb2.GenerateRequest, defaults: RequestDefaults) -> Mode:
    if not request.HasField("mode"):
        return defaults.mode
    try:
        mode = decode_mode(request.mode)
    except ProtocolError as error:
        raise InvalidRequest(
            f"mode must be one of ssd, sd, ar, shadow, not {request.mode}", "mode"
        ) from error
    if mode is not defaults.mode and not defaults.allow_request_mode:
        raise InvalidRequest(f"mode {mode} is not allowed here, only {defaults.mode}", "mode")
    return mode


def _rule(request: generation_pb2.GenerateRequest, defaults: RequestDefaults) -> Rule:
    if not request.HasField("rule"):
        return defaults.rule
    if request.rule not in RULES.values():
        raise InvalidRequest(f"rule must be coupled or ratio, not {request.rule}", "rule")
    return decode_rule(request.rule)


def _speculation(
    request: generation_pb2.GenerateRequest, defaults: RequestDefaults
) -> SpeculationLimits:
    limits = decode_limits(request.speculation)
    field, here = "speculation.drafters", defaults.drafters
    unknown = sorted((limits.drafters or NO_KINDS) - here) if here else []
    if unknown:
        there_are = ", ".join(sorted(here))
        raise InvalidRequest(
            f"{field}: {unknown[0]} does not work here; there are {there_are}", field
        )
    drafters = limits.drafters or here
    if len(drafters) > 1 and _rule(request, defaults) is Rule.RATIO:
        named = " and ".join(sorted(drafters))
        raise InvalidRequest(
            f"rule ratio takes one drafter, not {named}: name one in {field}", field
        )
    return replace(limits, drafters=drafters or None)


def _request_id(request: generation_pb2.GenerateRequest, defaults: RequestDefaults) -> str:
    """The client's name for the request, or a fresh one that ends in this coordinator's ordinal."""
    if not request.HasField("request_id"):
        return f"{uuid.uuid4().hex}-{defaults.ordinal}"
    if (
        not 0 < len(request.request_id) <= MAX_REQUEST_ID_LEN
        or not request.request_id.isprintable()
    ):
        raise InvalidRequest(
            f"request_id must be 1 to {MAX_REQUEST_ID_LEN} printable characters, "
            f"not {len(request.request_id)}",
            "request_id",
        )
    return request.request_id
