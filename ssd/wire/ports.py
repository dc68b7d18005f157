"""Taking a port."""

import grpc.aio

from ssd.core.errors import ConfigError


def bind(server: grpc.aio.Server, host: str, port: int) -> str:
    """Take a port, any free one for 0; the address that peers dial.

    Raises:
        ConfigError: the port is taken.
    """
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise ConfigError(f"port {port} of {host} is taken, or not ours to take") from error
    return f"{host}:{bound}"
