"""A worker on a thread of its own, for a host process that has another main loop (Ray's actors)."""

import asyncio
import threading
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from ssd.threads import run_soon
from ssd.worker.host import exit_when_engine_dies

RunWorker = Callable[[asyncio.Event, Callable[[str], None]], Coroutine[Any, Any, None]]
"""`run(stop, ready)`: serves until `stop` is set, calls `ready(address)` when clients can come."""


class BackgroundWorker:
    """Starts at once; `address` waits until it serves and raises what kept it from serving.

    A worker that fails later ends the process, so that Ray starts it again.
    """

    def __init__(self, run: RunWorker) -> None:
        self._run = run
        self._address: Future[str] = Future()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._main, name="worker-loop", daemon=True)
        self._thread.start()

    def address(self) -> str:
        return self._address.result()

    def stop(self) -> None:
        """Stop serving and wait for the end."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _main(self) -> None:
        run_soon()
        try:
            self._loop.run_until_complete(self._run(self._stop, self._address.set_result))
        except BaseException as error:
            if self._address.done():  # its host would live on, and serve nobody
                exit_when_engine_dies(error)
            else:
                traceback.print_exception(error)  # after a restart nobody may ask for the address
                self._address.set_exception(error)
        finally:
            self._loop.close()
