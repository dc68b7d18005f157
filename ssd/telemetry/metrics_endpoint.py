"""A process's figures over HTTP, for Prometheus: /metrics, and pages that a process adds."""

import selectors
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.process_collector import ProcessCollector

from ssd.core.errors import ConfigError

Page = Callable[[], bytes]
"""A JSON document, made anew for each request on the thread that serves it."""

Registry = CollectorRegistry


@contextmanager
def metrics_endpoint(
    registry: CollectorRegistry, *, host: str, port: int, pages: Mapping[str, Page] | None = None
) -> Iterator[str]:
    """Serve while the block runs; the address, HOST:PORT.

    Raises:
        ConfigError: the port is taken.
    """
    ProcessCollector(registry=registry)
    application = _with_pages(make_wsgi_app(registry), pages or {})
    try:
        server = make_server(host, port, application, _Server, _SilentHandler)
    except OSError as error:
        raise ConfigError(
            f"metrics: port {port} of {host} is taken, or not ours to take"
        ) from error
    thread = threading.Thread(target=server.serve_until_stopped, name="metrics", daemon=True)
    thread.start()
    try:
        yield f"{host}:{server.server_port}"
    finally:
        server.stop()
        thread.join()
        server.server_close()


def _with_pages(metrics: Any, pages: Mapping[str, Page]) -> Any:
    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            answered: Iterable[bytes] = metrics(environ, start_response)
            return answered
        if path in pages:
            start_response("200 OK", [("Content-Type", "application/json")])
            return [pages[path]()]
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"pages: " + ", ".join(["/metrics", *pages]).encode() + b"\n"]

    return application


class _Server(ThreadingWSGIServer):
    """The library's own loop looks twice a second whether it should end; this one is told."""

    timeout = 1.0  # of a connection that was there and is not any more

    def __init__(self, *args: Any) -> None:
        self._stopping, self._told = socket.socketpair()  # first: a port that is taken closes all
        super().__init__(*args)

    def serve_until_stopped(self) -> None:
        """Serve on the calling thread, which sleeps until a request or `stop` comes."""
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            selector.register(self._told, selectors.EVENT_READ)
            while self._told not in [key.fileobj for key, _ in selector.select()]:
                self.handle_request()

    def stop(self) -> None:
        self._stopping.send(b".")

    def server_close(self) -> None:
        self._stopping.close()
        self._told.close()
        super().server_close()


class _SilentHandler(WSGIRequestHandler):
    """A scrape is no event."""

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
