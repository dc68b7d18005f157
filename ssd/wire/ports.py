"""Taking a port."""

import socket

import grpc.aio

from ssd.core.errors import ConfigError
from ssd.wire.security import CLEAR, Security

WILDCARDS = frozenset({"0.0.0.0", "[::]", "::"})


def reachable(address: str) -> str:
    """The address to tell peers: one that listens everywhere is reached at this machine's own."""
    host, _, port = address.rpartition(":")
    return f"{_own_host()}:{port}" if host in WILDCARDS else address


def is_here(address: str) -> bool:
    """Whether a peer's address is one of this host's that `reachable` gives out."""
    return address.rpartition(":")[0] in {_own_host(), "127.0.0.1", "localhost"}


def _own_host() -> str:
    """The source address of traffic to elsewhere; nothing is sent (192.0.2.0/24 is RFC 5737's)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:  # a machine without a network talks to itself
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def bind(server: grpc.aio.Server, host: str, port: int, security: Security = CLEAR) -> str:
    """Take a port, any free one for 0; the address that peers dial.

    Raises:
        ConfigError: the port is taken.
    """
    try:
        _try(host, port)
        address = f"{host}:{port}"
        if security.is_encrypted:
            bound = server.add_secure_port(address, security.server_credentials())
        else:
            bound = server.add_insecure_port(address)
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"port {port} of {host} is taken, or not ours to take") from error
    return f"{host}:{bound}"


def _try(host: str, port: int) -> None:
    """Listen and let go at once: gRPC logs its own failure at length before it raises."""
    address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    socket.create_server(address[4], family=address[0]).close()
