"""One table from errors to status codes, and a client's way back."""

from typing import Any

import grpc
import pytest

from ssd.core import errors
from ssd.wire.status import error_named, error_of_call, status_code

CODES = {
    errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.UnknownSession: grpc.StatusCode.NOT_FOUND,
    errors.SessionConflict: grpc.StatusCode.ALREADY_EXISTS,
    errors.NoCapacity: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Preempted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.Cancelled: grpc.StatusCode.CANCELLED,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.Draining: grpc.StatusCode.UNAVAILABLE,
    errors.OwnedElsewhere: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ConfigError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ModelRefused: grpc.StatusCode.FAILED_PRECONDITION,
    errors.Poisoned: grpc.StatusCode.INTERNAL,
    errors.EngineBroken: grpc.StatusCode.INTERNAL,
    errors.ProtocolError: grpc.StatusCode.INTERNAL,
}
NOT_FOR_CLIENTS = (
    *(errors.ModelRefused, errors.Preempted, errors.Draining),
    *(errors.Poisoned, errors.EngineBroken, errors.OwnedElsewhere, errors.ProtocolError),
)


def every_kind(kind: type[errors.SsdError]) -> set[type[errors.SsdError]]:
    return {kind}.union(*(every_kind(each) for each in kind.__subclasses__()))


class _Failed(grpc.RpcError, grpc.Call):
    """A call that ended badly, as grpc raises it."""

    def __init__(self, code: grpc.StatusCode, details: str | None) -> None:
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str | None:  # type: ignore[override]
        return self._details

    def initial_metadata(self) -> Any:
        return ()

    def trailing_metadata(self) -> Any:
        return ()

    def is_active(self) -> bool:
        return False

    def time_remaining(self) -> float:
        return 0.0

    def cancel(self) -> bool:
        return False

    def add_callback(self, callback: Any) -> bool:
        return False


def test_every_error_has_a_code_of_its_own_choice() -> None:
    ours = {kind for kind in every_kind(errors.SsdError) if kind.__module__ == errors.__name__}
    assert ours - {errors.SsdError} == CODES.keys(), "a new error needs a line in the table"
    for kind, code in CODES.items():
        assert status_code(kind("words")) is code


def test_an_unlisted_error_is_internal() -> None:
    class New(errors.SsdError):
        pass

    assert status_code(New("words")) is grpc.StatusCode.INTERNAL
    assert status_code(errors.SsdError("words")) is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize("kind", [each for each in CODES if each not in NOT_FOR_CLIENTS])
def test_a_client_gets_the_servers_error_back(kind: type[errors.SsdError]) -> None:
    back = error_of_call(_Failed(CODES[kind], "top_p must be 1"))
    assert type(back) is kind
    assert str(back) == "top_p must be 1"


def test_other_codes_keep_their_name() -> None:
    back = error_of_call(_Failed(grpc.StatusCode.DEADLINE_EXCEEDED, None))
    assert type(back) is errors.SsdError
    assert str(back) == "DEADLINE_EXCEEDED: no details"
    broken = error_of_call(_Failed(grpc.StatusCode.INTERNAL, "the engine failed 3 times"))
    assert type(broken) is errors.SsdError
    assert str(broken) == "INTERNAL: the engine failed 3 times"


def test_a_refusal_names_an_error_and_an_unknown_name_is_still_one() -> None:
    assert type(error_named("NoCapacity", "full")) is errors.NoCapacity
    assert type(error_named("Nonsense", "odd")) is errors.SsdError
