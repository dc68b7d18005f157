"""How a client reaches a server, shows who it is, and when it tries again."""

import secrets
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import grpc

from ssd.client.request import Options
from ssd.core.errors import ConfigError, NoCapacity, OwnedElsewhere, SsdError, Unavailable

_FIRST_PAUSE_S = 0.05
_LAST_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files: the authority of the server's certificate, and our own where it asks for one.

    No authority means those of the system. `server_name` is the name in the server's certificate
    where it is not the address.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    server_name: str | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(
            root_certificates=_read(self.ca),
            private_key=_read(self.key),
            certificate_chain=_read(self.cert),
        )

    def options(self) -> list[tuple[str, str]]:
        return [("grpc.ssl_target_name_override", self.server_name)] if self.server_name else []


@dataclass(frozen=True, slots=True)
class Identity:
    """What every call carries; neither ever shows in an error or a log."""

    api_key: str | None = None
    cluster_token: str | None = None

    def __post_init__(self) -> None:
        for secret in (self.api_key, self.cluster_token):
            if secret is not None and not (secret.isascii() and secret.isprintable()):
                raise ConfigError("a key or token must be printable ASCII on one line")

    def __repr__(self) -> str:
        return "Identity(...)"

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        shown = []
        if self.api_key is not None:
            shown.append(("authorization", f"Bearer {self.api_key}"))
        if self.cluster_token is not None:
            shown.append(("x-ssd-cluster-token", self.cluster_token))
        return tuple(shown)


class Tries:
    """The tries of one generation: before its first token, and only within its time.

    With `resume_s` also behind the tokens that came, for so long after each break.
    """

    def __init__(self, *, max_retries: int, timeout_s: float | None, resume_s: float = 0.0) -> None:
        self._left = max_retries
        self._resume_s = resume_s
        self._give_up_s: float | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s

    @property
    def time_left_s(self) -> float | None:
        """What the next try may take."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)

    def went_on(self) -> None:
        """Something came: the next break has the whole time for itself."""
        if self._resume_s:
            self._give_up_s, self._pause_s = None, _FIRST_PAUSE_S

    def pause_after(self, error: SsdError, *, has_begun: bool) -> float | None:
        """Seconds to wait before the next try; None when there is none."""
        if self._resume_s and isinstance(error, OwnedElsewhere | Unavailable):
            return 0.0 if isinstance(error, OwnedElsewhere) else self._pause_in_a_break()
        if has_begun or self._left == 0 or not isinstance(error, NoCapacity | Unavailable):
            return None
        self._left -= 1
        asked_s = error.retry_s if isinstance(error, NoCapacity) else None
        pause_s = asked_s if asked_s is not None else self._pause_s
        self._pause_s = min(2 * self._pause_s, _LAST_PAUSE_S)
        left_s = self.time_left_s
        return None if left_s is not None and pause_s >= left_s else pause_s

    def _pause_in_a_break(self) -> float | None:
        now_s = time.monotonic()
        if self._give_up_s is None:
            self._give_up_s = now_s + self._resume_s
        pause_s = min(self._pause_s, 0.5)
        self._pause_s = 2 * pause_s
        return None if now_s + pause_s > self._give_up_s else pause_s


def resumable(options: Options) -> Options:
    """Give the request a name to ask for, and a seed to be made again from if all is lost."""
    request_id = options.request_id or uuid.uuid4().hex
    seed = secrets.randbits(64) if options.seed is None else options.seed
    return replace(options, request_id=request_id, seed=seed)


def _read(file: str | None) -> bytes | None:
    return None if file is None else Path(file).expanduser().read_bytes()
