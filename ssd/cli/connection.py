"""How a command reaches a coordinator: clear or encrypted, as the configuration says."""

from pathlib import Path

from ssd.cli.options import configuration, coordinator_address
from ssd.client import Client, Tls
from ssd.config import SecuritySection
from ssd.core.errors import ConfigError


def connect(address: str | None, key_file: Path | None = None) -> Client:
    """A client of the coordinator, encrypted where the configuration's section security is.

    Raises:
        ConfigError: a file cannot be read, or the configuration is refused.
    """
    settings = configuration(None, None)
    return client_of(settings.security, coordinator_address(address), key_file)


def client_of(security: SecuritySection, address: str, key_file: Path | None = None) -> Client:
    """Raises ConfigError when a file cannot be read."""
    tls = None
    if security.tls_ca is not None:
        tls = Tls(security.tls_ca, security.tls_cert, security.tls_key, security.tls_server_name)
    try:
        return Client(
            address,
            api_key=None if key_file is None else _secret(key_file),
            tls=tls,
            cluster_token=(
                None if security.cluster_token is None else _secret(Path(security.cluster_token))
            ),
        )
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from error


def _secret(file: Path) -> str:
    return file.expanduser().read_text("utf-8").strip()
