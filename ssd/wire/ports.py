"""Taking a port."""

import socket

import grpc.aio

from ssd.core.errors import ConfigError


def bind(server: grpc.aio.Server, host: str, port: int) -> str:
    """Take a port, any free one for 0; the address that peers dial.

    Raises:
        ConfigError: the port is taken.
    """
    try:
        _try(host, port)
        bound = server.add_insecure_port(f"{host}:{port}")
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"port {port} of {host} is taken, or not ours to take") from error
    return f"{host}:{bound}"


def _try(host: str, port: int) -> None:
    """Listen and let go at once: gRPC logs its own failure at length before it raises."""
    address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    socket.create_server(address[4], family=address[0]).close()
