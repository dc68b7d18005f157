"""The examples run against a real service: what they print is what it says."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ssd.engine.loading import LoadedModel
from tests.services.cluster import Cluster

CHECKOUT = Path(__file__).resolve().parents[2]
EXAMPLES = CHECKOUT / "examples"
PROMPT = "Once upon a time"
INSTALL_S = 90.0


async def output_of(command: Sequence[str], *, cwd: Path = CHECKOUT) -> tuple[int, str]:
    """The exit code of a command, and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "PYTHONPATH": str(CHECKOUT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(INSTALL_S):
            printed, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return -1, "it took too long"
    return process.returncode or 0, printed.decode()


async def test_the_python_examples(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    expected = await cluster.generate(PROMPT, max_tokens=32, temperature=0.7, seed=1, stop=["\n\n"])
    script = str(EXAMPLES / "python" / "stream.py")
    code, printed = await output_of([sys.executable, script, cluster.address, PROMPT])
    assert code == 0, printed
    assert expected.text in printed
    assert f"{expected.num_tokens} tokens" in printed
    script = str(EXAMPLES / "python" / "chat_and_scores.py")
    code, printed = await output_of([sys.executable, script, cluster.address])
    assert code == 0, printed
    for seed in range(3):
        answer = await cluster.generate(PROMPT, max_tokens=16, seed=seed)
        assert repr(answer.text) in printed


@pytest.fixture(scope="session")
def node_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Node example with its packages, in a folder that looks like the checkout."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node or npm is not installed")
    root = tmp_path_factory.mktemp("node")
    folder = root / "examples" / "node"
    shutil.copytree(EXAMPLES / "node", folder, ignore=shutil.ignore_patterns("node_modules"))
    (root / "protos").symlink_to(CHECKOUT / "protos")
    install = ["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=INSTALL_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"the packages of the Node example cannot be installed here: {error}")
    return folder


async def test_the_node_example(
    node_client: Path, cluster: Cluster, target: LoadedModel, draft: LoadedModel, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("node node-key-0123456789\n")
    await cluster.coordinate(security={"api_keys": str(keys)})
    await cluster.verify(target)
    await cluster.draft(draft)
    run = ["node", "client.js", cluster.address, PROMPT]
    code, printed = await output_of(run, cwd=node_client)
    assert code == 1
    assert "UNAUTHENTICATED" in printed
    code, printed = await output_of([*run, "node-key-0123456789"], cwd=node_client)
    assert code == 0, printed
    done = json.loads(printed.strip().splitlines()[-1])
    assert done["completion"] == len(done["tokenIds"]) > 0
    assert done["seed"] == "18446744073709551615"
    assert done["text"] in printed
