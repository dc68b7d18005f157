"""What a thread asks of the kernel, as the kernel says it."""

import ctypes
import os
import platform
import threading
from collections.abc import Callable

import pytest

from ssd import threads

_SETATTR = threads._SYSCALLS.get(platform.machine())


def attributes() -> threads._SchedAttr:
    """Of the calling thread."""
    found = threads._SchedAttr()
    size = ctypes.sizeof(found)
    assert _SETATTR is not None
    number = _SETATTR + 1  # sched_getattr
    assert ctypes.CDLL(None).syscall(number, 0, ctypes.byref(found), size, 0) == 0
    return found


@pytest.fixture(autouse=True)
def kernel_with_slices() -> None:
    if platform.system() != "Linux" or _SETATTR is None:
        pytest.skip("only Linux has sched_getattr, under numbers that are known here for two CPUs")
    if not attributes().runtime_ns:
        pytest.skip("this kernel has no slices of a thread's own")


def slices_of_a_thread(*asks: Callable[[], None]) -> list[int]:
    """Nanoseconds at its start, and after each call."""
    seen: list[int] = []

    def ask() -> None:
        seen.append(attributes().runtime_ns)
        for each in asks:
            each()
            seen.append(attributes().runtime_ns)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return seen


def test_messages_go_before_engines_and_neither_is_nicer_or_another_policy_for_it() -> None:
    nice, policy = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)
    before, soon, long = slices_of_a_thread(threads.run_soon, threads.run_long)
    assert soon < long
    assert attributes().runtime_ns == before, "of the thread that asked alone"
    assert (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)) == (nice, policy)


def test_a_thread_inherits_the_slices_of_the_one_that_starts_it() -> None:
    inherited: list[int] = []

    def start_another() -> None:
        inherited.extend(slices_of_a_thread())

    _, soon, _ = slices_of_a_thread(threads.run_soon, start_another)
    assert inherited == [soon]


def test_an_unknown_processor_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "abacus")
    before, after = slices_of_a_thread(threads.run_long)
    assert before == after
