"""Waiting for a service ends as soon as it is in vain."""

import sys
import time
from pathlib import Path

import pytest

from ssd.cluster.launcher import Launcher
from ssd.cluster.local_service import LocalService
from ssd.core.errors import Unavailable


def test_a_process_that_ends_at_start_is_named_at_once(tmp_path: Path) -> None:
    with Launcher(tmp_path / "run") as launcher:
        service = LocalService(launcher, "127.0.0.1:0", ())
        launcher.start_child("coordinator", [sys.executable, "-c", "raise SystemExit(2)"])
        began = time.monotonic()
        with pytest.raises(Unavailable, match="coordinator ended with status 2 before"):
            service.wait_until(lambda: False, deadline_s=60)
        assert time.monotonic() - began < 20


def test_one_that_says_nothing_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    with Launcher(tmp_path / "run") as launcher:
        service = LocalService(launcher, "127.0.0.1:0", ())
        launcher.start_child("coordinator", [sys.executable, "-c", "import time; time.sleep(60)"])
        with pytest.raises(Unavailable, match=r"does not take requests after 0\.2 s"):
            service.wait_until(lambda: False, deadline_s=0.2)
