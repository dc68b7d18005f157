"""Where a model's files are, before anything reads them.

A name is a folder, a `.gguf` file, or a model of the Hugging Face hub. Only what can't be a path is
ever looked up on the hub, and offline only in what was downloaded before.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from ssd.core.errors import ConfigError, ModelRefused

SINGLE_FILE = "model.safetensors"
SHARD_INDEX = "model.safetensors.index.json"
_DOWNLOADED = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.py"]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model's folder and the files in it that hold weights."""

    name: str
    folder: Path
    weight_files: tuple[Path, ...]

    @property
    def defining_files(self) -> tuple[Path, ...]:
        """What decides the logits: the weights and, where it is a file, the configuration."""
        config = () if self.gguf_file is not None else (self.folder / "config.json",)
        return (*self.weight_files, *config)

    @property
    def gguf_file(self) -> str | None:
        """The name of the GGUF file, if the weights are in one."""
        first = self.weight_files[0]
        return first.name if first.suffix == ".gguf" else None

    @property
    def tokenizer_file(self) -> Path | None:
        file = self.folder / "tokenizer.json"
        return file if file.is_file() and self.gguf_file is None else None


def find_checkpoint(path_or_name: str, *, offline: bool) -> Checkpoint:
    """The checkpoint behind a path or a name.

    Raises:
        ConfigError: there is nothing of that name.
        ModelRefused: what is there has no weights we read.
    """
    path = Path(path_or_name).expanduser()
    if path.suffix == ".gguf":
        return _gguf_checkpoint(path)
    name, folder = find_folder(path_or_name, offline=offline)
    return _folder_checkpoint(name, folder)


def find_folder(path_or_name: str, *, offline: bool) -> tuple[str, Path]:
    """A model's name and the folder that its files are in, weights or none.

    Raises:
        ConfigError: there is nothing of that name.
    """
    if not path_or_name:
        raise ConfigError("a model needs a path or a name, not an empty string")
    path = Path(path_or_name).expanduser()
    if path.is_dir():
        return path.resolve().name, path
    if _is_path(path_or_name):
        raise ConfigError(f"there is no model folder {path_or_name}")
    return path_or_name, _hub_folder(path_or_name, offline=offline)


def _is_path(path_or_name: str) -> bool:
    """Hub names are `model` or `owner/model`; `models/target` is a path where `models` exists."""
    first, *others = path_or_name.split("/")
    if path_or_name[0] in "./~\\" or "\\" in path_or_name or "" in others:
        return True
    return len(others) > 1 or (len(others) == 1 and Path(first).is_dir())


def _gguf_checkpoint(path: Path) -> Checkpoint:
    if not path.is_file():
        raise ConfigError(f"there is no model file {path}")
    return Checkpoint(path.stem, path.parent, (path,))


def _folder_checkpoint(name: str, folder: Path) -> Checkpoint:
    if (folder / "adapter_config.json").is_file():
        raise ModelRefused(f"{name} is an adapter; merge it into its base model first")
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} is not a model folder: it has no config.json")
    return Checkpoint(name, folder, _weight_files(name, folder))


def _weight_files(name: str, folder: Path) -> tuple[Path, ...]:
    if (folder / SINGLE_FILE).is_file():
        return (folder / SINGLE_FILE,)
    if not (folder / SHARD_INDEX).is_file():
        raise ModelRefused(f"{name} has no safetensors weights, the only ones we read")
    shards = _shards_of(folder / SHARD_INDEX)
    if missing := [shard.name for shard in shards if not shard.is_file()]:
        raise ConfigError(f"{folder} lacks {', '.join(missing)}")
    return shards


def _shards_of(index_file: Path) -> tuple[Path, ...]:
    try:
        names = set(json.loads(index_file.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError) as error:
        raise ConfigError(f"{index_file} is not an index of weights: {error}") from error
    return tuple(index_file.parent / name for name in sorted(names))


def _hub_folder(name: str, *, offline: bool) -> Path:
    # Imported late: only names of the hub need its client.
    from huggingface_hub import snapshot_download  # noqa: PLC0415
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled  # noqa: PLC0415

    try:
        folder = snapshot_download(name, allow_patterns=_DOWNLOADED, local_files_only=offline)
    except (HfHubHTTPError, OfflineModeIsEnabled, OSError, ValueError) as error:
        where = "among the downloaded models" if offline else "on the hub"
        raise ConfigError(f"there is no folder {name}, nor a model {name} {where}") from error
    return Path(folder)
