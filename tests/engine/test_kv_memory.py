"""How many KV slots a worker takes."""

from dataclasses import replace

import pytest
import torch

from ssd.config import parse_memory
from ssd.core.errors import ConfigError
from ssd.engine.fingerprint import Fingerprint
from ssd.engine.lean_runner import LeanRunner
from ssd.engine.loading import LoadedModel
from ssd.worker.kv_memory import kv_slots
from ssd.worker.warm_up import measure_forwards
from tests.engine.tiny_models import VOCAB_SIZE, tiny_model
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    """Warm, so that it is known what a slot takes."""
    runner = LeanRunner(tiny_model(dtype=torch.float32), prepack=False)
    table = load_table(agreeing(ScriptedModel(seed=3)), context_len=64)
    fingerprint = Fingerprint(model_sha256="", dtype="fp32", runner="lean", num_layers=2)
    loaded = replace(table, runner=runner, vocab_size=VOCAB_SIZE, fingerprint=fingerprint)
    measure_forwards(loaded)
    return loaded


def _slots(model: LoadedModel, memory: str, slots: int | None = None) -> int:
    return kv_slots(model, memory=memory, slots=slots, device="cpu", cpu_share=0.5)


def test_memory_is_divided_into_whole_blocks(model: LoadedModel) -> None:
    assert isinstance(model.runner, LeanRunner)
    slot_bytes = model.runner.kv_store.slot_bytes
    assert slot_bytes > 0
    assert model.runner.kv_store.num_bytes == 0  # the warm-up left nothing
    assert _slots(model, "1MiB") == 2**20 // slot_bytes // 64 * 64


def test_auto_takes_a_part_of_what_is_free(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ssd.worker.kv_memory._free_bytes", lambda device: 2**22)
    assert _slots(model, "auto") == _slots(model, "2MiB")


def test_what_is_free_is_some_of_this_machine(model: LoadedModel) -> None:
    assert _slots(model, "auto") > 64


def test_slots_that_are_named_go_before_memory(model: LoadedModel) -> None:
    assert _slots(model, "1MiB", 200) == 192


def test_too_little_memory_is_refused_with_the_need(model: LoadedModel) -> None:
    with pytest.raises(ConfigError, match=r"needs \d+ bytes a token and at least 64 tokens"):
        _slots(model, "1KiB")


def test_a_runner_without_tensors_gets_a_round_number() -> None:
    assert _slots(load_table(agreeing(ScriptedModel(seed=3))), "1MiB") == 65536


@pytest.mark.parametrize(
    ("size", "num_bytes"), [("auto", None), ("3KiB", 3072), ("1.5GiB", 3 * 2**29)]
)
def test_sizes_are_read(size: str, num_bytes: int | None) -> None:
    assert parse_memory(size) == num_bytes
