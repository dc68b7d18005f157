"""The one table from our errors to gRPC status codes, and back."""

from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf import any_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from ssd.core import errors

RETRY_MS = 1_000
"""When a request that found no room, or no verifier, should be tried again."""

_OWNED_ELSEWHERE = "OWNED_ELSEWHERE"
_DETAILS_KEY = "grpc-status-details-bin"

_CODES: dict[type[errors.SsdError], grpc.StatusCode] = {
    errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.UnknownSession: grpc.StatusCode.NOT_FOUND,
    errors.SessionConflict: grpc.StatusCode.ALREADY_EXISTS,
    errors.NoCapacity: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.Cancelled: grpc.StatusCode.CANCELLED,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.OwnedElsewhere: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ConfigError: grpc.StatusCode.FAILED_PRECONDITION,  # of the two a client's first guess
    errors.ProtocolError: grpc.StatusCode.INTERNAL,
}
# What broke inside a server says nothing of its messages: a client hears of it as SsdError.
_BY_CODE = {code: kind for kind, code in _CODES.items() if kind is not errors.ProtocolError}
_BY_NAME: dict[str, type[errors.SsdError]] = {
    kind.__name__: kind for kind in (*_CODES, errors.Preempted, errors.Draining, errors.Poisoned)
}


def status_code(error: errors.SsdError) -> grpc.StatusCode:
    """The code of the nearest listed class; what nobody listed is a bug."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return grpc.StatusCode.INTERNAL


def error_named(kind: str, message: str) -> errors.SsdError:
    """The error a peer named in a `Refused`."""
    return _BY_NAME.get(kind, errors.SsdError)(message)


def error_of_call(error: grpc.RpcError) -> errors.SsdError:
    """The error behind a failed call, as a client sees it: the server's sentence, our class."""
    assert isinstance(error, grpc.Call | grpc.aio.AioRpcError)
    code, details = error.code(), error.details() or "no details"
    kind = _BY_CODE.get(code, errors.SsdError)
    field, retry_s = _unpacked(error)
    if kind is errors.InvalidRequest:
        return errors.InvalidRequest(details, field)
    if kind is errors.NoCapacity:
        return errors.NoCapacity(details, retry_s)
    if owner := _owner(error):
        return errors.OwnedElsewhere(details, owner)
    return kind(details if kind is not errors.SsdError else f"{code.name}: {details}")


async def abort(context: Any, error: errors.SsdError) -> NoReturn:
    """End a call with the error's code and sentence, and its details as google.rpc has them.

    A refused field travels as `BadRequest`, and what may go better later as `RetryInfo`.
    """
    code = status_code(error)
    packed = [_packed(detail) for detail in _details(error)]
    if packed:
        status = status_pb2.Status(code=code.value[0], message=str(error), details=packed)
        context.set_trailing_metadata([(_DETAILS_KEY, status.SerializeToString())])
    await context.abort(code, str(error))
    raise AssertionError("abort returned")


def _details(error: errors.SsdError) -> list[Message]:
    if isinstance(error, errors.InvalidRequest) and error.field is not None:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=error.field, description=str(error)
        )
        return [error_details_pb2.BadRequest(field_violations=[violation])]
    if isinstance(error, errors.NoCapacity | errors.Unavailable):
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(RETRY_MS)
        return [retry]
    if isinstance(error, errors.OwnedElsewhere):
        where = {"address": error.address}
        return [error_details_pb2.ErrorInfo(reason=_OWNED_ELSEWHERE, domain="ssd", metadata=where)]
    return []


def _packed(detail: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed


def _unpacked(error: grpc.Call | grpc.aio.AioRpcError) -> tuple[str | None, float | None]:
    """The field that was refused, and the seconds to wait before trying again."""
    field, retry_s = None, None
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS_KEY:
            continue
        for detail in status_pb2.Status.FromString(value).details:
            bad, retry = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
            if detail.Unpack(bad) and bad.field_violations:
                field = bad.field_violations[0].field
            elif detail.Unpack(retry):
                retry_s = retry.retry_delay.ToMilliseconds() / 1e3
    return field, retry_s


def _owner(error: grpc.Call | grpc.aio.AioRpcError) -> str:
    """The address of the coordinator that has the request, empty when that is not the matter."""
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS_KEY:
            continue
        for detail in status_pb2.Status.FromString(value).details:
            info = error_details_pb2.ErrorInfo()
            if detail.Unpack(info) and info.reason == _OWNED_ELSEWHERE:
                return str(info.metadata["address"])
    return ""
