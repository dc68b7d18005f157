"""`ssd serve` with something it cannot have: one sentence, exit 2, nothing left running."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ssd.cluster.processes import wait_until
from tests.models.tiny_pair import TinyPair, byte_tokenizer, write_tiny_pair

pytestmark = pytest.mark.timeout(180)
SSD = Path(sys.executable).with_name("ssd")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> TinyPair:
    return write_tiny_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def temporary() -> Iterator[Path]:

    folder = Path(tempfile.mkdtemp(prefix="ssd-s-", dir="/tmp"))  # socket paths must be short
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def refused(arguments: Sequence[str], temporary: Path) -> str:
    """Run `ssd serve`, expect a refusal that leaves nothing, and return its sentence."""
    mark = f"SERVE_TEST={uuid.uuid4().hex}"
    name, _, value = mark.partition("=")
    places = {"TMPDIR": str(temporary), "XDG_CONFIG_HOME": str(temporary / "config")}
    ended = subprocess.run(
        [SSD, "serve", *arguments],
        env={**os.environ, **places, name: value},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    sentences = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert ended.returncode == 2, ended.stderr
    assert len(sentences) == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "serving at" not in ended.stdout
    assert wait_until(lambda: not marked(mark), 10.0), f"left running: {marked(mark)}"
    return sentences[0]


def marked(mark: str) -> list[int]:
    """The processes that inherited the mark."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in environment.read_bytes():
                found.append(int(environment.parent.name))
        except OSError:  # it has ended, or is another user's
            continue
    return found


def test_an_unknown_target_is_named(temporary: Path) -> None:
    sentence = refused(["--target", "./nowhere", "--port", "0"], temporary)
    assert sentence == "error: there is no target model at nowhere"


def test_an_unknown_draft_is_named(pair: TinyPair, temporary: Path) -> None:
    arguments = ["--target", str(pair.target), "--draft", "./nowhere", "--port", "0"]
    assert "there is no draft model at nowhere" in refused(arguments, temporary)


def test_tokenizers_that_differ_are_refused_by_the_first_id(
    pair: TinyPair, tmp_path: Path, temporary: Path
) -> None:
    draft = tmp_path / "draft"
    shutil.copytree(pair.draft, draft)
    text = byte_tokenizer().to_str()
    (draft / "tokenizer.json").write_text(text.replace('"A":', '"\\u0001":', 1), "utf-8")
    arguments = ["--target", str(pair.target), "--draft", str(draft), "--port", "0"]
    sentence = refused(arguments, temporary)
    assert "the tokenizers differ: id " in sentence
    assert '"A" in the target' in sentence


def test_a_taken_port_is_named(pair: TinyPair, temporary: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ["--target", str(pair.target), "--draft", str(pair.draft)]
        sentence = refused([*arguments, "--port", str(port)], temporary)
    assert f"port {port} of 127.0.0.1 is taken" in sentence


def test_a_gpu_demanded_where_there_is_none_is_refused(pair: TinyPair, temporary: Path) -> None:
    models = ["--target", str(pair.target), "--draft", str(pair.draft), "--port", "0"]
    sentence = refused([*models, "--set", "cluster.require_gpu=true"], temporary)
    assert "2 workers (drafter-0, verifier-0) need a GPU each and the Ray cluster has 0" in sentence


def test_an_unknown_mode_is_refused_with_the_choices() -> None:
    ended = subprocess.run(
        [SSD, "serve", "--mode", "turbo"], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert "turbo" in ended.stderr
    assert "ssd" in ended.stderr


def test_an_unknown_setting_names_the_nearest_one(temporary: Path) -> None:
    sentence = refused(["--set", "verifier.max_tree_node=3"], temporary)
    assert "did you mean verifier.max_tree_nodes?" in sentence
