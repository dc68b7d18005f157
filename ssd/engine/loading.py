"""From a path or a name to a model that is ready to run rows, or a sentence why not."""

from dataclasses import dataclass, field
from enum import StrEnum

import torch
from torch import Tensor

from ssd.core.cost_model import Experts
from ssd.core.errors import ConfigError
from ssd.core.rows import Runner
from ssd.engine.checkpoint import find_checkpoint
from ssd.engine.device_span import CPU
from ssd.engine.fingerprint import Fingerprint, files_sha256
from ssd.tokenizer.chat_format import ChatFormat
from ssd.tokenizer.vocabulary import Vocabulary

_DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp64": torch.float64,
}


class RunnerChoice(StrEnum):
    """Which forward runs the model."""

    AUTO = "auto"
    """The lean one where the architecture fits, else the reference."""
    TRANSFORMERS = "transformers"
    """The reference: the library's own modules."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What is rarely asked for.

    `layers` keeps only that many of the first decoder layers, with the model's own norm and head: a
    draft that costs no training.
    """

    layers: int | None = None
    runner: RunnerChoice = RunnerChoice.AUTO

    def __post_init__(self) -> None:
        if self.layers is not None and self.layers < 1:
            raise ConfigError(f"a draft must keep at least one layer, not {self.layers}")


DEFAULT_OPTIONS = LoadOptions()


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that passed every check.

    `vocabulary` is None where the folder has no tokenizer of the `tokenizers` library.
    """

    name: str
    runner: Runner[Tensor]
    vocab_size: int
    context_len: int
    eos_token_ids: tuple[int, ...]
    fingerprint: Fingerprint
    vocabulary: Vocabulary | None
    weight_bytes: int = 0
    device: torch.device = CPU
    experts: Experts | None = None
    """Of a mixture of experts, what a layer has of them."""
    chat: ChatFormat = field(default_factory=ChatFormat)


def load_model(
    path_or_name: str,
    *,
    dtype: str = "fp32",
    device: str = "cpu",
    offline: bool = True,
    trust_remote_code: bool = False,
    options: LoadOptions = DEFAULT_OPTIONS,
) -> LoadedModel:
    """Load a folder, a `.gguf` file or a model of the hub.

    Raises:
        ConfigError: there is no such model or device, or its files are broken.
        ModelRefused: the model can't be served exactly.
    """
    checked_dtype, checked_device = _dtype(dtype), _device(device)
    checkpoint = find_checkpoint(path_or_name, offline=offline)
    # Imported late: it brings in transformers, which takes seconds, and a wrong path should not.
    from ssd.engine.pretrained import load_pretrained  # noqa: PLC0415
    from ssd.engine.runner_choice import choose_runner  # noqa: PLC0415

    pretrained = load_pretrained(
        checkpoint,
        dtype=checked_dtype,
        device=checked_device,
        trust_remote_code=trust_remote_code,
        num_layers=options.layers,
    )
    weight_bytes = _num_bytes(pretrained.model)  # the runner may take the weights out
    runner = choose_runner(pretrained, force_reference=options.runner is RunnerChoice.TRANSFORMERS)
    return LoadedModel(
        name=checkpoint.name,
        runner=runner,
        vocab_size=pretrained.vocab_size,
        context_len=pretrained.context_len,
        eos_token_ids=pretrained.eos_token_ids,
        fingerprint=Fingerprint(
            model_sha256=files_sha256(checkpoint.defining_files),
            dtype=dtype,
            runner=runner.name,
            num_layers=pretrained.num_layers,
        ),
        vocabulary=pretrained.vocabulary,
        weight_bytes=weight_bytes,
        device=checked_device,
        experts=pretrained.experts,
        chat=ChatFormat.from_folder(checkpoint.folder),
    )


def _num_bytes(model: torch.nn.Module) -> int:
    """Bytes of all weights; one that two modules share counts once."""
    return sum(each.nbytes for each in model.parameters())


def _dtype(name: str) -> torch.dtype:
    if name not in _DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(_DTYPES)}, not {name}")
    return _DTYPES[name]


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device must be cpu or cuda, not {name}") from error
    if device.type not in {"cpu", "cuda"}:
        raise ConfigError(f"device must be cpu or cuda, not {name}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"there is no device {name}: {torch.cuda.device_count()} CUDA devices")
    return device
