"""A short-lived connection to a Ray cluster."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ray
from ray._raylet import (  # type: ignore[attr-defined]  # its stub leaves them out
    AuthenticationTokenLoader,
    Config,
)

from ssd.core.errors import Unavailable

_CONNECT_S = 3.0
_ASK_AGAIN_S = 0.5


@contextmanager
def connected(
    address: str, *, namespace: str, token_path: Path | None = None, listens_by: float = 0.0
) -> Iterator[None]:
    """Be a driver of the cluster inside the `with`; without `token_path` the environment decides.

    A cluster that does not listen yet may do so by `listens_by`, on the monotonic clock.

    Raises:
        Unavailable: nothing answers there, or it does not accept our token.
    """
    if address != "auto":  # which is whatever Ray finds on this machine
        _expect_listener(address, listens_by)
    with _token(token_path), _own_sigterm_handler():
        try:
            _connect(address, namespace)
            yield
        finally:
            ray.shutdown()


def _expect_listener(address: str, listens_by: float) -> None:
    """Ray itself tries an address for a minute and then ends the process."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
        except (OSError, ValueError) as error:
            if time.monotonic() > listens_by:
                raise Unavailable(f"no Ray cluster answers at {address}: {error}") from error
            time.sleep(_ASK_AGAIN_S)
        else:
            return


def _connect(address: str, namespace: str) -> None:
    try:
        ray.init(address, namespace=namespace, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ray.exceptions.AuthenticationError) as error:
        raise Unavailable(f"Ray at {address} refuses us (the right token?): {error}") from error


@contextmanager
def _token(token_path: Path | None) -> Iterator[None]:
    if token_path is None:
        yield
        return
    ours = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token_path)}
    before = {name: os.environ.get(name) for name in (*ours, "RAY_AUTH_TOKEN")}
    try:
        _set_environment({"RAY_AUTH_TOKEN": None, **ours})
        yield
    finally:
        _set_environment(before)


def _set_environment(values: dict[str, str | None]) -> None:
    """Ray takes its token from the environment and nowhere else, and remembers what it read."""
    for name, value in values.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _own_sigterm_handler() -> Iterator[None]:
    """`ray.init` replaces the handler of SIGTERM for good."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None:  # None: installed outside Python, and cannot be put back
            signal.signal(signal.SIGTERM, before)
