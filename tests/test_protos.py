"""The protos are well formed and the stubs in ssd/v1 were made from them."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.proto import CHECKOUT, generate, stubs

BUF = Path(sys.executable).with_name("buf")


def test_the_stubs_are_those_of_the_protos(tmp_path: Path) -> None:
    generate(tmp_path)
    fresh, committed = stubs(tmp_path), stubs(CHECKOUT)
    assert sorted(committed) == sorted(fresh), "run `make proto`"
    different = [name for name, text in fresh.items() if committed[name] != text]
    assert not different, "run `make proto`"


@pytest.mark.skipif(not BUF.exists(), reason="buf is not installed (extra dev)")
def test_the_protos_follow_the_style_guide() -> None:
    lint = subprocess.run([BUF, "lint"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert lint.returncode == 0, lint.stdout + lint.stderr
