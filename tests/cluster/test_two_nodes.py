import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("two_nodes.py")


def test_device_zero_of_two_nodes_is_accepted(tmp_path: Path, ray_files: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0" * 64)
    environment = {
        **os.environ,
        "PYTHONPATH": str(SCRIPT.parents[2]),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_TMPDIR": str(ray_files),
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (node_a, device_a), (node_b, device_b) = json.loads(done.stdout.splitlines()[-1])
    assert node_a != node_b
    assert (device_a, device_b) == ("cuda:0", "cuda:0")
