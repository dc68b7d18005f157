import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.tiny_pair import write_tiny_pair

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


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_node_is_taken_away_and_the_service_recovers(tmp_path: Path, ray_files: Path) -> None:
    """With the verifier's node go its sessions' KV; their texts go on, and are what they were."""
    token = tmp_path / "token"
    token.write_text("0" * 64)
    write_tiny_pair(tmp_path)
    script = SCRIPT.with_name("node_loss.py")
    environment = {
        **os.environ,
        "PYTHONPATH": str(SCRIPT.parents[2]),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_TMPDIR": str(ray_files),
    }
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    logging.getLogger(__name__).info("%s", answer)
    assert answer["equal"]
    assert answer["longest_gap_s"] < 10.0
