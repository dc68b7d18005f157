"""The one table from our errors to gRPC status codes, and back."""

import grpc

from ssd.core import errors

_CODES: dict[type[errors.SsdError], grpc.StatusCode] = {
    errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.UnknownSession: grpc.StatusCode.NOT_FOUND,
    errors.SessionConflict: grpc.StatusCode.ALREADY_EXISTS,
    errors.NoCapacity: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Cancelled: grpc.StatusCode.CANCELLED,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.ConfigError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ProtocolError: grpc.StatusCode.INTERNAL,
}
_BY_CODE = {code: kind for kind, code in _CODES.items()}
_BY_NAME = {kind.__name__: kind for kind in _CODES}


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
    assert isinstance(error, grpc.Call)
    code, details = error.code(), error.details() or "no details"
    kind = _BY_CODE.get(code, errors.SsdError)
    return kind(details if kind is not errors.SsdError else f"{code.name}: {details}")
