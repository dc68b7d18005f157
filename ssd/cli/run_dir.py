"""Where the commands keep what they must find again after a crash."""

from pathlib import Path

import typer


def run_dir() -> Path:
    """A folder of this user; one subfolder per service on this machine."""
    return Path(typer.get_app_dir("ssd")) / "run"
