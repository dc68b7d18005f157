"""A client's request, checked and with every parameter filled in.

Nothing is adjusted in silence: what does not fit is refused with the field's name and its limit.
"""

import uuid
from dataclasses import dataclass

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from coordinator.sampling_request import check_vocabulary, sampling_params, stop_token_ids
from coordinator.served_model import ServedModel
from ssd.core.client_session import Admission
from ssd.core.errors import InvalidRequest, ProtocolError
from ssd.core.ids import SessionId
from ssd.core.mode import Mode
from ssd.v1 import generation_pb2
from ssd.wire.codec import decode_mode

MAX_REQUEST_ID_LEN = 128


@dataclass(frozen=True, slots=True)
class RequestDefaults:
    """What the operator decided for requests that do not say; None leaves it to the context."""

    mode: Mode
    allow_request_mode: bool
    max_tokens: int | None
    ordinal: int


def admit(
    request: generation_pb2.GenerateRequest, model: ServedModel, defaults: RequestDefaults
) -> Admission:
    """Raises InvalidRequest naming the field and the limit."""
    refuse_unknown_fields(request)
    prompt = _prompt(request, model)
    max_tokens = _max_tokens(request, len(prompt), model, defaults)
    return Admission(
        session_id=_session_id(request, defaults),
        prompt_token_ids=prompt,
        max_len=len(prompt) + max_tokens,
        params=sampling_params(request, model, max_tokens=max_tokens),
        stop_token_ids=stop_token_ids(request, model),
        mode=_mode(request, defaults),
    )


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


def _prompt(request: generation_pb2.GenerateRequest, model: ServedModel) -> tuple[int, ...]:
    context_len = model.target.context_len
    if request.WhichOneof("prompt") == "token_ids":
        token_ids = tuple(request.token_ids.token_ids)
        check_vocabulary("token_ids", token_ids, model)
    else:
        # Hardly a token is longer than this; the bound is on the tokenizer's work.
        if len(request.text) > 64 * context_len:
            raise InvalidRequest(
                f"text of {len(request.text)} characters cannot fit a context of "
                f"{context_len} tokens",
                "text",
            )
        token_ids = model.codec.encode(request.text)
    if not token_ids:
        raise InvalidRequest(
            "the prompt is empty: give text or token_ids of at least one token", "prompt"
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
            f"mode must be one of ssd, sd, ar, not {request.mode}", "mode"
        ) from error
    if mode is not defaults.mode and not defaults.allow_request_mode:
        raise InvalidRequest(f"mode {mode} is not allowed here, only {defaults.mode}", "mode")
    return mode


def _session_id(request: generation_pb2.GenerateRequest, defaults: RequestDefaults) -> SessionId:
    """The client's name for the request, or a fresh one that ends in this coordinator's ordinal."""
    if not request.HasField("request_id"):
        return SessionId(f"{uuid.uuid4().hex}-{defaults.ordinal}")
    if (
        not 0 < len(request.request_id) <= MAX_REQUEST_ID_LEN
        or not request.request_id.isprintable()
    ):
        raise InvalidRequest(
            f"request_id must be 1 to {MAX_REQUEST_ID_LEN} printable characters, "
            f"not {len(request.request_id)}",
            "request_id",
        )
    return SessionId(request.request_id)
