"""Every peer draws the target's own tokens, plain and with a draft."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from benchmarks.peers.engine import Drafting, Models, Task
from benchmarks.peers.identity import Judge
from benchmarks.peers.subprocess_engine import SubprocessEngine

CHECKOUT = Path(__file__).resolve().parents[2]
PYSTD = CHECKOUT / "models" / "pystd"
PEERS_PYTHON = CHECKOUT / ".venv-peers" / "bin" / "python"
FOLDERS = Models(str(PYSTD / "target"), str(PYSTD / "draft"), threads=1)
PROMPT = (735, 604, 199, 735, 715, 541, 199, 316, 1975, 8, 2494, 29, 354, 301, 199)
NUM_TOKENS = 24


@pytest.fixture(scope="module")
def target_ids() -> tuple[int, ...]:
    """What the target says by argmax alone, token by token."""
    model = AutoModelForCausalLM.from_pretrained(PYSTD / "target", dtype=torch.float32)
    ids = list(PROMPT)
    with torch.inference_mode():
        for _ in range(NUM_TOKENS):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return tuple(ids[len(PROMPT) :])


def test_transformers_in_a_process_of_its_own(target_ids: tuple[int, ...], tmp_path: Path) -> None:
    _check("transformers", FOLDERS, Path(sys.executable), target_ids, tmp_path)


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded pair in the formats of llama.cpp and OpenVINO."""
    if not PEERS_PYTHON.exists():
        pytest.skip("the peers are not installed: `make bench-peers` makes .venv-peers")
    out = tmp_path_factory.mktemp("formats")
    command = [str(PEERS_PYTHON), "-m", "benchmarks.peers.export"]
    subprocess.run([*command, FOLDERS.target, FOLDERS.draft, str(out)], cwd=CHECKOUT, check=True)
    return out


def test_llama_cpp(formats: Path, target_ids: tuple[int, ...], tmp_path: Path) -> None:
    models = Models(f"{formats}/target.gguf", f"{formats}/draft.gguf", 1)
    _check("llama.cpp", models, PEERS_PYTHON, target_ids, tmp_path)


def test_openvino(formats: Path, target_ids: tuple[int, ...], tmp_path: Path) -> None:
    models = Models(f"{formats}/target-openvino", f"{formats}/draft-openvino", 1)
    _check("openvino", models, PEERS_PYTHON, target_ids, tmp_path)


def _check(
    name: str, models: Models, python: Path, target_ids: tuple[int, ...], folder: Path
) -> None:
    engine = SubprocessEngine(name, models, python=python, log=folder / "log")
    judge = Judge(PYSTD / "target")
    try:
        for drafting in (None, Drafting(3)):
            answer = engine.generate(Task(PROMPT, NUM_TOKENS, drafting))
            assert len(answer.token_ids) == NUM_TOKENS
            assert 0 < answer.decode_s <= answer.total_s
            assert 0 < answer.num_decoded < NUM_TOKENS
            found = judge.first_difference(name, 0, PROMPT, (target_ids, answer.token_ids))
            assert found is None or found.is_near_tie
    finally:
        engine.close()
