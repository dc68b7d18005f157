"""A worker inside another process's main loop: its failure is that process's, before and after."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from ssd.worker.background import BackgroundWorker


def test_what_keeps_it_from_serving_is_told_to_who_asks() -> None:
    async def run(stop: asyncio.Event, ready: Callable[[str], None]) -> None:
        raise OSError("no such model")

    with pytest.raises(OSError, match="no such model"):
        BackgroundWorker(run).address()


def test_a_failure_while_it_serves_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray would not notice: its own loop lives on, and nobody is served."""
    ended: list[BaseException] = []
    is_over = threading.Event()

    def exit_process(error: BaseException) -> None:
        ended.append(error)
        is_over.set()

    async def run(stop: asyncio.Event, ready: Callable[[str], None]) -> None:
        ready("here")
        raise MemoryError("no more")

    monkeypatch.setattr("ssd.worker.background.exit_when_engine_dies", exit_process)
    assert BackgroundWorker(run).address() == "here"
    assert is_over.wait(10.0)
    assert isinstance(ended[0], MemoryError)


def test_it_stops_when_it_is_told() -> None:
    async def run(stop: asyncio.Event, ready: Callable[[str], None]) -> None:
        ready("here")
        await stop.wait()

    worker = BackgroundWorker(run)
    assert worker.address() == "here"
    worker.stop()
