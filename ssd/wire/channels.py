"""Options that every channel and server of the project shares."""

import grpc
import grpc.aio

from ssd.wire.checksums import CheckedStreams
from ssd.wire.security import CLEAR, Security

MAX_MESSAGE_BYTES = 16 * 2**20  # an Open with a full context is about a megabyte
_KEEPALIVE_MS = 10_000

_COMMON: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_permit_without_calls", 1),
]
_SERVER: list[tuple[str, int]] = [
    ("grpc.so_reuseport", 0),  # a port in use is an error, not a shared port
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),  # a client that pings every second is welcome
]
_CLIENT: list[tuple[str, int]] = [
    ("grpc.http2.max_pings_without_data", 0),
    # A restarted peer should be found in well under a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),  # services talk to each other directly
]


def channel_options(security: Security = CLEAR) -> list[tuple[str, int | str]]:
    """What every channel of ours asks of gRPC."""
    return [*_COMMON, *_CLIENT, *security.channel_options()]


def open_channel(address: str, security: Security = CLEAR) -> grpc.aio.Channel:
    """A channel to a service of this project; it connects when first used."""
    options = channel_options(security)
    if not security.is_encrypted:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, security.channel_credentials(), options=options)


def make_server(
    security: Security = CLEAR, *, max_connection_age_s: float | None = None
) -> grpc.aio.Server:
    """A server that accepts what our channels send.

    After `max_connection_age_s`, give or take a tenth, a connection takes no new calls, so that its
    client asks for the addresses again; the calls that it carries go on for as long as they last.
    """
    age = (
        []
        if max_connection_age_s is None
        else [("grpc.max_connection_age_ms", round(max_connection_age_s * 1000))]
    )
    interceptors = [CheckedStreams(), *security.interceptors()]
    return grpc.aio.server(interceptors=interceptors, options=[*_COMMON, *_SERVER, *age])
