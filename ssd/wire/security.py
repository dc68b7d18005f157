"""How the processes of one service trust each other, and how clients come in.

With certificates everything is encrypted, and the services among each other show the cluster's
token besides: a client that may generate may not register a model or open a session. Files are read
again when they change, so a certificate is renewed without a restart.
"""

import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc
import grpc.aio

from ssd.core.errors import ConfigError

_INTERNAL = tuple(f"/ssd.v1.{name}Service/" for name in ("Registry", "Verifier", "Drafter"))
_Handler = Any
_TOKEN_KEY = "x-ssd-cluster-token"
_MIN_TOKEN_LEN = 16


class SecuritySettings(Protocol):
    """The part of the configuration that this needs (`ssd.config.SecuritySection`)."""

    @property
    def tls_cert(self) -> str | None: ...
    @property
    def tls_key(self) -> str | None: ...
    @property
    def tls_ca(self) -> str | None: ...
    @property
    def tls_require_client_cert(self) -> bool: ...
    @property
    def tls_server_name(self) -> str | None: ...
    @property
    def cluster_token(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Security:
    """Paths of PEM files and of the token; the default is clear text among friends."""

    cert: str | None = None
    key: str | None = None
    ca: str | None = None
    require_client_cert: bool = False
    server_name: str | None = None
    token_file: str | None = None

    @classmethod
    def of(cls, settings: SecuritySettings) -> "Security":
        """Raises ConfigError when a file that is named cannot be read, or holds too little."""
        made = cls(
            cert=settings.tls_cert,
            key=settings.tls_key,
            ca=settings.tls_ca,
            require_client_cert=settings.tls_require_client_cert,
            server_name=settings.tls_server_name,
            token_file=settings.cluster_token,
        )
        for file in (made.cert, made.key, made.ca, made.token_file):
            _read(file)
        if made.token_file is not None and len(made.token) < _MIN_TOKEN_LEN:
            raise ConfigError(
                f"{made.token_file} holds {len(made.token)} characters; the cluster's token needs "
                f"{_MIN_TOKEN_LEN}"
            )
        return made

    @property
    def is_encrypted(self) -> bool:
        return self.cert is not None

    @property
    def token(self) -> str:
        """The secret that internal calls carry; empty where none is configured."""
        return (_read(self.token_file) or b"").decode().strip()

    def server_credentials(self) -> grpc.ServerCredentials:
        """For a server; every new connection gets the certificate as the files have it then."""
        return grpc.dynamic_ssl_server_credentials(
            self._certificates(),
            _WhenChanged(self),
            require_client_authentication=self.require_client_cert,
        )

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """For dialing a peer, whom we show our own certificate and the token."""
        tls = grpc.ssl_channel_credentials(
            root_certificates=_read(self.ca),
            private_key=_read(self.key),
            certificate_chain=_read(self.cert),
        )
        if self.token_file is None:
            return tls
        return grpc.composite_channel_credentials(
            tls, grpc.metadata_call_credentials(_TokenPlugin(self))
        )

    def channel_options(self) -> list[tuple[str, str]]:
        """The name that peers' certificates carry where it is not their address."""
        return [("grpc.ssl_target_name_override", self.server_name)] if self.server_name else []

    def interceptors(self) -> list[grpc.aio.ServerInterceptor]:
        """What a server puts before its services."""
        return [_InternalGuard(self)] if self.token_file is not None else []

    def _certificates(self) -> grpc.ServerCertificateConfiguration:
        key, cert = _read(self.key), _read(self.cert)
        assert key is not None
        assert cert is not None
        return grpc.ssl_server_certificate_configuration([(key, cert)], _read(self.ca))

    def _stamps(self) -> tuple[int, ...]:
        files = [Path(file) for file in (self.cert, self.key, self.ca) if file is not None]
        return tuple(file.stat().st_mtime_ns for file in files)


CLEAR = Security()


class _WhenChanged:
    """Called for every connection: the new certificates when a file changed, else nothing."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._stamps = security._stamps()

    def __call__(self) -> Any:  # None is allowed, and gRPC's stubs do not know
        try:
            stamps = self._security._stamps()
            if stamps == self._stamps:
                return None
            fresh = self._security._certificates()
        except (OSError, ConfigError):
            return None  # in the middle of a renewal the old ones go on
        self._stamps = stamps
        return fresh


class _TokenPlugin(grpc.AuthMetadataPlugin):
    def __init__(self, security: Security) -> None:
        self._security = security

    def __call__(self, context: Any, callback: Any) -> None:
        callback(((_TOKEN_KEY, self._security.token),), None)


class _InternalGuard(grpc.aio.ServerInterceptor):
    """Refuses calls of the internal services that come without the cluster's token."""

    def __init__(self, security: Security) -> None:
        self._security = security

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(_INTERNAL):
            return handler
        if self._has_token(handler_call_details.invocation_metadata or ()):
            return handler
        return _refusing(handler)

    def _has_token(self, metadata: Sequence[tuple[str, str | bytes]]) -> bool:
        shown = [value for key, value in metadata if key == _TOKEN_KEY]
        expected = self._security.token.encode()
        given = shown[0] if shown else b""
        given = given if isinstance(given, bytes) else given.encode()
        return hmac.compare_digest(given, expected)


def _refusing(handler: _Handler) -> _Handler:
    """A handler of the same shape that says no."""

    async def refuse(_: Any, context: Any) -> None:
        await context.abort(
            grpc.StatusCode.UNAUTHENTICATED, "this service needs the cluster's token"
        )

    if handler.request_streaming and handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(refuse)
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(refuse)
    if handler.request_streaming:
        return grpc.stream_unary_rpc_method_handler(refuse)
    return grpc.unary_unary_rpc_method_handler(refuse)


def _read(file: str | None) -> bytes | None:
    if file is None:
        return None
    try:
        return Path(file).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
