import os
import signal
import subprocess
import sys
from pathlib import Path

from ssd.cluster import Child, start_child
from ssd.cluster.children import start_family
from ssd.cluster.processes import wait_until

SLEEP = "import time; time.sleep(600)"


def start(tmp_path: Path, script: str) -> Child:
    """Start a child that knows `ready()`, and wait until it has said so."""
    ready = tmp_path / "ready"
    script = f"import signal, time\ndef ready(): open({str(ready)!r}, 'w')\n{script}"
    child = start_child("toy", [sys.executable, "-c", script])
    assert wait_until(ready.exists, 10)
    return child


def test_a_child_is_asked_before_it_is_killed(tmp_path: Path) -> None:
    child = start(tmp_path, "signal.signal(15, lambda *_: exit(7)); ready(); signal.pause()")
    assert child.exit_code is None
    child.stop()
    assert child.exit_code == 7


def test_a_child_that_will_not_end_is_killed(tmp_path: Path) -> None:
    child = start(tmp_path, "signal.signal(15, signal.SIG_IGN); ready(); time.sleep(600)")
    child.stop(grace_s=0.1)
    assert child.exit_code == -signal.SIGKILL


def test_stopping_a_child_that_has_ended_keeps_its_exit_code(tmp_path: Path) -> None:
    child = start(tmp_path, "ready(); exit(3)")
    assert child.wait(10)
    child.stop()
    assert child.exit_code == 3


def test_a_child_dies_with_its_parent() -> None:
    script = (
        "from ssd.cluster import start_child\n"
        f"print(start_child('toy', {[sys.executable, '-c', SLEEP]!r}).pid, flush=True)\n"
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    )
    parent = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    child = Path("/proc") / parent.stdout.decode().strip()
    assert wait_until(lambda: not child.exists(), 5)


def test_a_family_ends_with_its_head_even_those_who_left_the_session(tmp_path: Path) -> None:
    """The head starts a runaway that starts another, says who they are, and ends."""
    grandchild = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}])"
    script = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {grandchild!r} + '; {SLEEP}'],"
        " start_new_session=True)\n"
        "print(child.pid, flush=True); time.sleep(0.5); exit(5)"
    )
    path = tmp_path / "output"
    with path.open("wb") as output:
        command = [sys.executable, "-c", script]
        family = start_family("toy", command, environment=dict(os.environ), output=output)
    assert family.wait(20)
    assert family.exit_code == 5
    assert not (Path("/proc") / path.read_text().strip()).exists()
    assert not any(SLEEP in text for text in command_lines())


def command_lines() -> list[str]:
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(entry.read_text(errors="replace"))
        except OSError:
            continue
    return lines
