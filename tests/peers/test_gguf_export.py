"""A GGUF file holds the numbers that the folder holds, and says the same."""

from pathlib import Path

import numpy as np
import pytest
import torch

gguf = pytest.importorskip(
    "gguf", reason="gguf is not installed: pip install 'ssd-service[smollm]'"
)

from benchmarks.peers.gguf_export import export_gguf, interleaved  # noqa: E402
from benchmarks.peers.llama_folder import LlamaFolder  # noqa: E402
from ssd.core.ids import KvId, SlotSet  # noqa: E402
from ssd.core.rows import RowGroup  # noqa: E402
from ssd.engine.loading import load_model  # noqa: E402

DRAFT = Path(__file__).resolve().parents[2] / "models" / "pystd" / "draft"
PROMPT = (735, 604, 199, 735, 715, 541, 199, 316, 1975, 8)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("gguf") / "draft.gguf"
    export_gguf(DRAFT, file)
    return file


def test_every_weight_comes_back_bit_for_bit(exported: Path) -> None:
    llama = LlamaFolder.read(DRAFT)
    read = {each.name: each.data for each in gguf.GGUFReader(exported).tensors}
    assert len(read) == len(llama.weights)
    assert np.array_equal(read["token_embd.weight"], llama.embeddings)
    assert np.array_equal(read["blk.1.ffn_down.weight"], llama.layer(1, "mlp.down_proj"))
    keys = interleaved(llama.layer(0, "self_attn.k_proj"), llama.num_kv_heads)
    assert np.array_equal(read["blk.0.attn_k.weight"], keys)


def test_rows_of_a_head_are_interleaved_by_halves() -> None:
    rows = np.arange(8, dtype=np.float32).reshape(8, 1)  # two heads of four
    assert interleaved(rows, 2).ravel().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_the_file_says_what_the_folder_says(exported: Path) -> None:
    """Read by transformers, which puts the rows of queries and keys back."""
    assert torch.allclose(_logits(str(exported)), _logits(str(DRAFT)), atol=1e-5)


def _logits(model: str) -> torch.Tensor:
    """[rows, vocab] of the prompt."""
    count = len(PROMPT)
    rows = RowGroup(
        kv_id=KvId("prompt"),
        token_ids=PROMPT,
        positions=tuple(range(count)),
        past_len=0,
        slots=tuple(range(count)),
        visible=tuple(SlotSet((2 << row) - 1) for row in range(count)),
        wanted=tuple(range(count)),
    )
    logits: torch.Tensor = load_model(model, dtype="fp32").runner.forward([rows])
    return logits
