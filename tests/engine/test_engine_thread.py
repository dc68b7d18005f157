"""When the engine's thread passes on what its machine says."""

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from ssd.core.rows import Meanwhile
from ssd.engine.engine_thread import EngineThread
from ssd.engine.lean_runner import LeanRunner
from ssd.engine.transformers_runner import TransformersRunner
from tests.engine.row_groups import chain
from tests.engine.tiny_models import tiny_model

PATIENCE_S = 30.0


class Scripted:
    """Runs as many forwards as it is given; each says its number."""

    def __init__(self, log: list[str], *, fails_before_it_computes: bool = False) -> None:
        self.num_left = 0
        self.num_done = 0
        self._log = log
        self._fails = fails_before_it_computes

    def give(self, num_forwards: int) -> list[str]:
        self.num_left += num_forwards
        return [f"given {num_forwards}"]

    def run(self, meanwhile: Meanwhile) -> bool:
        if not self.num_left:
            return False
        self.num_left -= 1
        self._log.append("launch")
        if not self._fails:
            meanwhile()
        self._log.append("end")
        return True

    def settle(self) -> list[str]:
        self.num_done += 1
        return [f"forward {self.num_done}"]

    def wake_at(self) -> float | None:
        return None

    def release(self, outputs: Sequence[str]) -> None:
        self._log.extend(f"release {each}" for each in outputs)


class Running:
    """An engine around a scripted machine, and everything that happened, in order."""

    def __init__(self, **script: Any) -> None:
        self.log: list[str] = []
        self.machine = Scripted(self.log, **script)
        self.delivered: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.engine: EngineThread[str] = EngineThread(
            "scripted", self.machine, deliver=self._deliver, died=lambda error: None
        )

    def _deliver(self, outputs: list[str]) -> None:
        self.log.extend(f"deliver {each}" for each in outputs)
        for each in outputs:
            self.delivered.put(each)

    def until(self, output: str) -> None:
        while self.delivered.get(timeout=PATIENCE_S) != output:
            pass


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def begin(**script: Any) -> Running:
        running = Running(**script)
        started.append(running)
        running.engine.start()
        return running

    yield begin
    for running in started:
        running.engine.stop()


def test_what_a_forward_brought_is_passed_on_while_the_next_computes(
    start: Callable[..., Running],
) -> None:
    running = start()
    running.engine.post(lambda: running.machine.give(2))
    running.until("forward 2")
    first, second = running.log.index("launch"), len(running.log) - 1
    assert running.log[first:second] == [
        "launch",
        "deliver given 2",
        "end",
        "release forward 1",  # before rows of the next run
        "launch",
        "deliver forward 1",
        "end",
        "release forward 2",
    ], "and without a forward to run it leaves at once"


def test_what_was_not_passed_on_in_a_forward_is_passed_on_after_it(
    start: Callable[..., Running],
) -> None:
    running = start(fails_before_it_computes=True)
    running.engine.post(lambda: running.machine.give(3))
    running.until("forward 3")
    said = [each for each in running.log if each.startswith("deliver")]
    assert said == [
        f"deliver {each}" for each in ("given 3", "forward 1", "forward 2", "forward 3")
    ]


def test_nothing_is_left_when_it_stops() -> None:
    running = Running()
    running.engine.start()
    running.engine.post(_slow)  # the rest comes together
    for each in ("one", "two"):
        running.engine.post(lambda each=each: [each])  # type: ignore[misc]
    running.engine.stop()
    assert running.log[-2:] == ["deliver one", "deliver two"]


def _slow() -> list[str]:
    time.sleep(0.2)
    return []


@pytest.mark.parametrize("name", ["lean", "transformers"])
def test_a_forward_leaves_the_host_time_once_before_its_logits(name: str) -> None:
    model: Any = tiny_model()
    happened: list[str] = []
    if name == "lean":
        runner: Any = LeanRunner(model, prepack=False)
        head = runner._head

        def noted_head(rows: Tensor) -> Tensor:
            happened.append("logits")
            return head(rows)

        runner._head = noted_head
    else:
        model.lm_head.register_forward_hook(lambda *_: happened.append("logits"))
        runner = TransformersRunner(model)
    plain: Tensor = runner.forward([chain((1, 2, 3), session="a")])
    happened.clear()
    logits = runner.forward(
        [chain((1, 2, 3), session="b")], meanwhile=lambda: happened.append("meanwhile")
    )
    assert happened == ["meanwhile", "logits"]
    torch.testing.assert_close(logits, plain, rtol=0.0, atol=0.0)
