"""The files that advice is made of: config.json and, where it is there, tokenizer.json."""

import json
from dataclasses import dataclass
from pathlib import Path

from ssd.advise.families import shape_of
from ssd.advise.model_config import with_layers
from ssd.advise.model_shape import ModelShape
from ssd.core.errors import ConfigError
from ssd.engine.checkpoint import find_folder
from ssd.tokenizer.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Described:
    """A model on this machine, as its files describe it; no weights are looked at."""

    name: str
    folder: Path
    shape: ModelShape

    @property
    def vocabulary(self) -> Vocabulary | None:
        """None where there is no tokenizer.json."""
        file = self.folder / "tokenizer.json"
        return Vocabulary.from_file(file) if file.is_file() else None


def describe(path_or_name: str, *, num_layers: int | None = None) -> Described:
    """Find a folder, or a hub's model among those downloaded before, and read its configuration.

    With `num_layers` it is the model's first layers alone, with its own norm and head.

    Raises:
        ConfigError: there is no such model, its configuration cannot be read, its family is not
            known here, or it has fewer layers.
    """
    if path_or_name.endswith(".gguf"):
        raise ConfigError(
            f"{path_or_name} has no config.json to count by; name the model that it was made from"
        )
    name, folder = find_folder(path_or_name, offline=True)
    file = folder / "config.json"
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{file} is not a configuration: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{file} is not a configuration: it holds no mapping")
    if num_layers is None:
        return Described(name, folder, shape_of(name, values))
    all_layers = shape_of(name, values).num_layers
    if num_layers > all_layers:
        raise ConfigError(f"{name} has {all_layers} layers, not {num_layers}")
    first = f"first {num_layers} layers of {name}"
    return Described(first, folder, shape_of(first, with_layers(values, num_layers)))


def check_pair(target: Described, draft: Described) -> str | None:
    """What is known of two tokenizers: None if they agree, a sentence if that could not be seen.

    Raises:
        ConfigError: the tokenizers differ, so the draft would propose the wrong ids.
    """
    if target.folder == draft.folder:
        return None
    ours, theirs = target.vocabulary, draft.vocabulary
    if ours is None or theirs is None:
        lacking = target.name if ours is None else draft.name
        return f"the tokenizers were not compared: {lacking} has no tokenizer.json here"
    if (difference := ours.first_difference(theirs)) is not None:
        raise ConfigError(f"{draft.name} cannot draft for {target.name}: {difference}")
    return None
