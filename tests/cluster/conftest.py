"""Every Ray of these tests keeps its files below one directory, so that all it leaves is seen."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssd.cluster.processes import processes, uses, wait_until


@pytest.fixture(scope="session", autouse=True)
def ray_files() -> Iterator[Path]:
    """Where Ray's directories go; the tests leave neither a process nor a file in it."""
    directory = Path(tempfile.mkdtemp(prefix="ssd-t-", dir="/tmp"))  # socket paths must be short
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(directory)
    yield directory
    tempfile.tempdir = before[0]
    os.environ.pop("TMPDIR")
    if before[1] is not None:
        os.environ["TMPDIR"] = before[1]
    assert wait_until(lambda: not users(directory), 5), users(directory)
    assert list(directory.glob("ssd-ray-*")) == []
    shutil.rmtree(directory)


def users(directory: Path) -> list[int]:
    return [p.pid for p in processes() if p.pid != os.getpid() and uses(p.pid, directory)]
