"""Become the given command, and be sent a signal when the process that started it dies.

Run as a script, `python leash.py PARENT_PID SIGNAL_NUMBER COMMAND...`: it asks the kernel for the
signal and then executes the command under the same pid. Doing this after the fork, in a program of
its own, keeps Python code out of the window between fork and exec, where a parent with threads may
deadlock.

The kernel watches the *thread* that forked: start children from a thread that lives as long as they
should, in practice the main one.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent_pid, signal_number, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:
        sys.exit("the parent process ended before its child began")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
