"""How the kernel runs our threads: on which core, and how soon after they wake.

An engine computes without a pause. Whoever wakes beside it waits for the end of its slice, which
a slow timer notices up to 4 ms late: a growth step. Since Linux 6.12 a thread may name its slice,
and one that wakes with a shorter slice than that of the running thread runs at once
(sched_setattr(2), `sched_runtime` of SCHED_OTHER). So threads that pass messages on ask for short
slices and engines for long ones; nobody gets more of a core than before. On other kernels nothing
changes. Threads inherit the slice of the one that starts them.
"""

import ctypes
import os
import platform

_SHORT_NS = 100_000  # the least that the kernel takes
_LONG_NS = 10_000_000
_KEEP_POLICY = 0x08
_SYSCALLS = {"x86_64": 314, "aarch64": 274}  # sched_setattr, which Python has no call for


class _SchedAttr(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    )


def run_soon() -> None:
    """The calling thread passes messages on: when it wakes it runs before those that compute."""
    _ask_for_slices(_SHORT_NS)


def run_long() -> None:
    """The calling thread computes: it lets others go first, and is seldom interrupted else."""
    _ask_for_slices(_LONG_NS)


def pin_thread(core: int | None) -> None:
    """Keep the calling thread on one CPU core, where one is named and this process may use it."""
    if hasattr(os, "sched_getaffinity") and core in os.sched_getaffinity(0):
        os.sched_setaffinity(0, {core})


def _ask_for_slices(slice_ns: int) -> None:
    number = _SYSCALLS.get(platform.machine()) if platform.system() == "Linux" else None
    if number is not None:
        attributes = _SchedAttr(
            size=ctypes.sizeof(_SchedAttr),
            flags=_KEEP_POLICY,
            nice=os.getpriority(os.PRIO_PROCESS, 0),
            runtime_ns=slice_ns,
        )
        ctypes.CDLL(None).syscall(number, 0, ctypes.byref(attributes), 0)  # a refusal costs nothing
