"""Models load from a folder or a file, or are refused with a sentence."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoConfig

from ssd.core.errors import ConfigError, ModelRefused
from ssd.engine.loading import LoadedModel, LoadOptions, RunnerChoice, load_model
from tests.engine.row_groups import chain
from tests.engine.tiny_models import ARCHITECTURES, VOCAB_SIZE, save_tiny_model, tiny_model

REFERENCE = LoadOptions(runner=RunnerChoice.TRANSFORMERS)


@pytest.fixture(scope="module")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("llama") / "tiny-llama")


@pytest.fixture
def folder(llama_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    for file in llama_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def _edit_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def _logits(loaded: LoadedModel) -> torch.Tensor:
    return loaded.runner.forward([chain((3, 1, 4, 1, 5))])


def test_a_folder_says_what_it_holds(llama_folder: Path) -> None:
    loaded = load_model(str(llama_folder), dtype="fp64")
    assert loaded.name == "tiny-llama"
    assert loaded.vocab_size == VOCAB_SIZE
    assert loaded.context_len == 512
    assert loaded.eos_token_ids == (2,)
    assert loaded.vocabulary is None
    assert loaded.fingerprint.dtype == "fp64"
    assert loaded.fingerprint.num_layers == 2


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_served_architectures_load(architecture: str, tmp_path: Path) -> None:
    loaded = load_model(str(save_tiny_model(tmp_path, architecture)), dtype="fp32")
    assert _logits(loaded).shape == (5, VOCAB_SIZE)


@pytest.mark.parametrize(
    ("dtype", "logits_dtype"),
    [
        ("fp64", torch.float64),
        ("fp32", torch.float32),
        ("bf16", torch.float32),
        ("fp16", torch.float32),
    ],
)
def test_each_dtype_loads(llama_folder: Path, dtype: str, logits_dtype: torch.dtype) -> None:
    logits = _logits(load_model(str(llama_folder), dtype=dtype))
    assert logits.dtype == logits_dtype
    assert logits.isfinite().all()


def test_loading_twice_gives_equal_fingerprints(llama_folder: Path, folder: Path) -> None:
    first = load_model(str(llama_folder)).fingerprint
    assert load_model(str(folder)).fingerprint == first
    _edit_config(folder, rms_norm_eps=0.01)
    assert load_model(str(folder)).fingerprint != first


def test_end_tokens_come_from_the_generation_config_first(folder: Path) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [9, 5, 9]}))
    assert load_model(str(folder)).eos_token_ids == (5, 9)


def test_no_end_token_is_none(folder: Path) -> None:
    (folder / "generation_config.json").unlink(missing_ok=True)
    _edit_config(folder, eos_token_id=None)
    assert load_model(str(folder)).eos_token_ids == ()


def test_the_tokenizer_beside_the_weights_is_read(folder: Path) -> None:
    Tokenizer(WordLevel({"a": 0, "b": 1}, unk_token="a")).save(str(folder / "tokenizer.json"))
    vocabulary = load_model(str(folder)).vocabulary
    assert vocabulary is not None
    assert vocabulary.tokens == {0: "a", 1: "b"}


def test_sharded_weights_load(llama_folder: Path, tmp_path: Path) -> None:
    tiny_model(dtype=torch.float32).save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    whole, sharded = load_model(str(llama_folder)), load_model(str(tmp_path))
    assert torch.equal(_logits(whole), _logits(sharded))


class TestRunnerChoice:
    def test_llama_like_models_get_the_lean_runner(self, llama_folder: Path) -> None:
        assert load_model(str(llama_folder), dtype="fp64").fingerprint.runner == "lean"

    def test_others_get_the_reference(self, tmp_path: Path) -> None:
        loaded = load_model(str(save_tiny_model(tmp_path, "gpt2")))
        assert loaded.fingerprint.runner == "transformers"

    def test_the_reference_can_be_had(self, llama_folder: Path) -> None:
        lean = load_model(str(llama_folder), dtype="fp64")
        reference = load_model(str(llama_folder), dtype="fp64", options=REFERENCE)
        assert reference.fingerprint.runner == "transformers"
        torch.testing.assert_close(_logits(lean), _logits(reference), rtol=1e-10, atol=1e-10)


class TestFirstLayers:
    """A draft made of the target's first layers."""

    def test_it_is_the_model_cut_short(self, llama_folder: Path) -> None:
        loaded = load_model(str(llama_folder), dtype="fp64", options=LoadOptions(layers=1))
        model: Any = tiny_model(dtype=torch.float32).double()
        model.model.layers = model.model.layers[:1]
        with torch.inference_mode():
            expected = model(torch.tensor([[3, 1, 4, 1, 5]]), use_cache=False).logits[0]
        torch.testing.assert_close(_logits(loaded), expected, rtol=1e-9, atol=1e-9)

    def test_it_has_a_fingerprint_of_its_own(self, llama_folder: Path) -> None:
        whole = load_model(str(llama_folder)).fingerprint
        cut = load_model(str(llama_folder), options=LoadOptions(layers=1)).fingerprint
        assert whole != cut

    def test_more_layers_than_there_are(self, llama_folder: Path) -> None:
        with pytest.raises(ConfigError, match="has 2 layers, not 3"):
            load_model(str(llama_folder), options=LoadOptions(layers=3))

    def test_other_architectures(self, tmp_path: Path) -> None:
        path = str(save_tiny_model(tmp_path, "gpt2"))
        with pytest.raises(ModelRefused, match="first layers"):
            load_model(path, options=LoadOptions(layers=1))

    def test_no_layer(self) -> None:
        with pytest.raises(ConfigError, match="at least one layer"):
            LoadOptions(layers=0)


class TestNothingThere:
    """Wrong names end in one sentence, and paths are never asked for on the hub."""

    @pytest.fixture(autouse=True)
    def _no_network(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("asked the hub")

        monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "models").mkdir()

    @pytest.mark.parametrize(
        "path", ["./target", "/nowhere/target", "models/target", "a/b/c", "target/", "~/x"]
    )
    @pytest.mark.parametrize("offline", [True, False])
    def test_paths(self, path: str, offline: bool) -> None:
        with pytest.raises(ConfigError, match="there is no model folder"):
            load_model(path, offline=offline)

    def test_no_name(self) -> None:
        with pytest.raises(ConfigError, match="needs a path or a name"):
            load_model("")

    def test_gguf_files(self) -> None:
        with pytest.raises(ConfigError, match="there is no model file"):
            load_model("nowhere/model.gguf")


def test_an_unknown_name_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match="nor a model owner/name among the downloaded"):
        load_model("owner/name", offline=True)


@pytest.mark.parametrize(
    ("dtype", "device", "sentence"),
    [
        ("int8", "cpu", "dtype must be one of fp32, bf16, fp16, fp64, not int8"),
        ("fp32", "tpu", "device must be cpu or cuda, not tpu"),
        ("fp32", "meta", "device must be cpu or cuda, not meta"),
        ("fp32", "cuda:77", "there is no device cuda:77"),
    ],
)
def test_wrong_dtype_or_device(llama_folder: Path, dtype: str, device: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load_model(str(llama_folder), dtype=dtype, device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_without_a_device(llama_folder: Path) -> None:
    with pytest.raises(ConfigError, match="there is no device cuda: 0 CUDA devices"):
        load_model(str(llama_folder), device="cuda")


class TestBrokenFolders:
    def test_no_config(self, folder: Path) -> None:
        (folder / "config.json").unlink()
        with pytest.raises(ConfigError, match=r"no config\.json"):
            load_model(str(folder))

    def test_unknown_architecture(self, folder: Path) -> None:
        _edit_config(folder, model_type="unheard-of")
        with pytest.raises(ConfigError, match="unheard-of"):
            load_model(str(folder))

    def test_cut_weights(self, folder: Path) -> None:
        weights = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
        with pytest.raises(ConfigError, match="cannot load"):
            load_model(str(folder))

    def test_weights_of_another_size(self, folder: Path) -> None:
        _edit_config(folder, intermediate_size=52)
        with pytest.raises(ConfigError, match="cannot load"):
            load_model(str(folder))

    def test_missing_tensor(self, folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        del weights["lm_head.weight"]
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ModelRefused, match=r"no weights for lm_head\.weight"):
            load_model(str(folder))

    def test_missing_shard(self, folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        index = {"weight_map": {"a": "model-1.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        with pytest.raises(ConfigError, match=r"lacks model-1\.safetensors"):
            load_model(str(folder))

    def test_pickled_weights(self, folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        with pytest.raises(ModelRefused, match="no safetensors weights"):
            load_model(str(folder))

    def test_adapter(self, folder: Path) -> None:
        (folder / "adapter_config.json").write_text("{}")
        with pytest.raises(ModelRefused, match="is an adapter"):
            load_model(str(folder))


STATE = "recurrent state"


class TestRefusedArchitectures:
    @pytest.mark.parametrize(
        ("model_type", "sentence"),
        [
            ("mamba", STATE),
            ("mamba2", STATE),
            ("falcon_mamba", STATE),
            ("rwkv", STATE),
            ("jamba", STATE),
            ("zamba", STATE),
            ("zamba2", STATE),
            ("bamba", STATE),
            ("recurrent_gemma", STATE),
            ("qwen3_next", STATE),
            ("granitemoehybrid", STATE),
            ("falcon_h1", STATE),
            ("xlstm", STATE),
            ("minimax", "linear_attention"),
            ("llama4_text", "chunked_attention"),
            ("t5", "encoder-decoder"),
            ("bart", "encoder-decoder"),
            ("vit", "not a causal language model"),
        ],
    )
    def test_by_configuration(self, folder: Path, model_type: str, sentence: str) -> None:
        AutoConfig.for_model(model_type).save_pretrained(folder)
        with pytest.raises(ModelRefused, match=f"{model_type}.*{sentence}"):
            load_model(str(folder))

    def test_convolutions(self, folder: Path) -> None:
        AutoConfig.for_model(
            "lfm2", num_hidden_layers=2, layer_types=["conv", "full_attention"]
        ).save_pretrained(folder)
        with pytest.raises(ModelRefused, match="conv"):
            load_model(str(folder))

    @pytest.mark.parametrize("rope_type", ["dynamic", "longrope"])
    def test_rotary_embeddings_of_the_longest_text(self, folder: Path, rope_type: str) -> None:
        factors = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
        rope = {"rope_type": rope_type, "rope_theta": 10000.0, "factor": 2.0, **factors}
        _edit_config(folder, rope_parameters={**rope, "original_max_position_embeddings": 64})
        with pytest.raises(ModelRefused, match=f"{rope_type} rotary embedding"):
            load_model(str(folder))

    def test_attention_that_stays_in_the_model(self, tmp_path: Path) -> None:
        with pytest.raises(ModelRefused, match="does not let its attention be replaced"):
            load_model(str(save_tiny_model(tmp_path, "roformer")))

    def test_attention_in_both_directions(self, tmp_path: Path) -> None:
        with pytest.raises(ModelRefused, match="run in pieces its logits differ"):
            load_model(str(save_tiny_model(tmp_path, "bert", is_decoder=False)))

    def test_a_window_that_never_shows(self, tmp_path: Path) -> None:
        path = str(save_tiny_model(tmp_path, "llama", sliding_window=8))
        with pytest.raises(ModelRefused, match="keeps its sliding window"):
            load_model(path, options=REFERENCE)

    def test_no_word_of_how_long_a_text_may_be(self, tmp_path: Path) -> None:
        path = save_tiny_model(tmp_path, "bloom", max_position_embeddings=None)
        with pytest.raises(ModelRefused, match="how long a text may be"):
            load_model(str(path))
        _edit_config(path, seq_length=300)
        assert load_model(str(path)).context_len == 300


def test_code_of_a_checkpoint_is_not_run_unasked(folder: Path) -> None:
    _edit_config(
        folder, model_type="its-own", auto_map={"AutoConfig": "x.C", "AutoModelForCausalLM": "x.M"}
    )
    (folder / "x.py").write_text("raise SystemExit('ran')")
    with pytest.raises(ConfigError, match="cannot load"):
        load_model(str(folder))


def test_loading_leaves_the_environment_alone(llama_folder: Path) -> None:
    before = dict(os.environ), torch.get_default_dtype(), torch.get_num_threads()
    load_model(str(llama_folder))
    assert (dict(os.environ), torch.get_default_dtype(), torch.get_num_threads()) == before
