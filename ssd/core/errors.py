"""Everything this project raises on purpose.

SsdError
├── InvalidRequest      the client asked for something we refuse     INVALID_ARGUMENT
├── UnknownSession      no session of that id here                   NOT_FOUND
├── SessionConflict     the id is taken by another request           ALREADY_EXISTS
├── NoCapacity          admission found no room                      RESOURCE_EXHAUSTED
│   └── Preempted       it made room for an older session; goes on   (not for clients)
├── OwnedElsewhere      another coordinator has the request          FAILED_PRECONDITION
├── Unauthenticated     the client did not say who it is             UNAUTHENTICATED
├── Cancelled           the client called Cancel                     CANCELLED
├── Poisoned            the request makes the engine fail            INTERNAL
├── EngineBroken        the engine fails at everything               the process ends
├── Unavailable         no peer that could do it now                 UNAVAILABLE
│   └── Draining        the worker takes leave; others may take it   (not for clients)
├── ConfigError         the operator asked for something we refuse   exit code 2
│   └── ModelRefused    a model that can't be served exactly
└── ProtocolError       a peer sent something that makes no sense    dropped and counted
"""


class SsdError(Exception):
    """Base of all errors of this project; the message is one sentence fit for a user."""


class InvalidRequest(SsdError):
    """A request names a value outside its limits; `field` is its name in the request, if known."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class UnknownSession(SsdError):
    """No session of that id is known here."""


class SessionConflict(SsdError):
    """The session id is in use by a different request."""


class NoCapacity(SsdError):
    """There is no room for another session right now; `retry_s` says when to try again."""

    def __init__(self, message: str, retry_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class Preempted(NoCapacity):
    """The session made room for an older one; it is opened again when there is room."""


class Poisoned(SsdError):
    """The request makes the engine fail again and again; it is not tried any more."""


class EngineBroken(SsdError):
    """The engine fails whatever it is given; its process must be started again."""


class OwnedElsewhere(SsdError):
    """The request belongs to another coordinator, at `address`."""

    def __init__(self, message: str, address: str = "") -> None:
        super().__init__(message)
        self.address = address


class Unauthenticated(SsdError):
    """The client showed no key, or none that is known."""


class Cancelled(SsdError):
    """The client ended the request."""


class Unavailable(SsdError):
    """No worker can take the request now; trying later may help."""


class Draining(Unavailable):
    """The worker is about to leave; its sessions go on at another."""


class ConfigError(SsdError):
    """The configuration asks for something that cannot be done."""


class ModelRefused(ConfigError):
    """The model cannot be served exactly; the message says why."""


class ProtocolError(SsdError):
    """A peer's message is malformed or belongs to no state we are in."""
