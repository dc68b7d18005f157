"""From flags, environment and file to one checked configuration.

Precedence: flag > environment > file > default. A name that no setting has stops the process, in
every layer, and so does a value outside its limits; the message says where it came from.
"""

import difflib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ssd.config.setting import (
    ENVIRONMENT_DELIMITER,
    ENVIRONMENT_PREFIX,
    Setting,
    environment_name,
    nearest_key,
    settings,
)
from ssd.config.ssd_config import SsdConfig
from ssd.config.yaml_file import read_mapping
from ssd.core.errors import ConfigError

FILE_VARIABLE = "SSD_CONFIG"
DEFAULT_FILE = Path("ssd.yaml")
DEFAULT_ORIGIN = "default"


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """The configuration and, for each key, where its value came from."""

    config: SsdConfig
    origins: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Given:
    """A value that some layer gives."""

    key: str
    value: object
    origin: str


def load_config(
    *, file: Path | None, environment: Mapping[str, str], overrides: Mapping[str, object]
) -> LoadedConfig:
    """Merge the layers and check the result.

    `file` None takes the path in SSD_CONFIG, else ./ssd.yaml if there is one. `overrides` holds the
    flags that were given, by dotted key; a text among them is read like a variable's.

    Raises:
        ConfigError: an unknown name or a bad value anywhere, in one sentence.
    """
    path = file or _configured_file(environment)
    given: dict[str, _Given] = {}
    for layer in (_from_file(path), _from_environment(environment), _from_flags(overrides)):
        given.update((each.key, each) for each in layer)
    config = _validated(given)
    origins = {key: given[key].origin if key in given else DEFAULT_ORIGIN for key in settings()}
    return LoadedConfig(config, origins)


def _configured_file(environment: Mapping[str, str]) -> Path | None:
    if FILE_VARIABLE in environment:
        return Path(environment[FILE_VARIABLE])
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def _from_file(path: Path | None) -> Iterator[_Given]:
    if path is None:
        return
    for section, body in read_mapping(path).items():
        if isinstance(body, Mapping):
            yield from _from_section(path, str(section), body)
        elif section not in SsdConfig.model_fields:
            raise ConfigError(f"{path}: unknown key {section}{_meant(_nearest_name(str(section)))}")
        elif body is not None:  # a section whose keys are all commented out is fine
            raise ConfigError(f"{path}: {section} is a section, its keys are written below it")


def _from_section(path: Path, section: str, body: Mapping[object, object]) -> Iterator[_Given]:
    for name, value in body.items():
        key = f"{section}.{name}"
        if key not in settings():
            raise ConfigError(f"{path}: unknown key {key}{_meant(nearest_key(key))}")
        yield _Given(key, value, f"file {path}")


def _nearest_name(section: str) -> str | None:
    similar = difflib.get_close_matches(section, SsdConfig.model_fields, n=1)
    return similar[0] if similar else nearest_key(section)


def _from_environment(environment: Mapping[str, str]) -> Iterator[_Given]:
    links = _service_links(environment)
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == FILE_VARIABLE:
            continue
        if variable.startswith(links):
            continue
        key = variable.removeprefix(ENVIRONMENT_PREFIX).replace(ENVIRONMENT_DELIMITER, ".").lower()
        if key not in settings():
            nearest = nearest_key(key)
            meant = _meant(environment_name(nearest) if nearest else None)
            raise ConfigError(f"environment: {variable} names no setting{meant}")
        yield _Given(key, _parsed(settings()[key], text), f"environment {variable}")


def _service_links(environment: Mapping[str, str]) -> tuple[str, ...]:
    """What the variables begin with that Kubernetes sets in every pod for each Service nearby.

    A Service `ssd-coordinator` brings SSD_COORDINATOR_SERVICE_HOST, SSD_COORDINATOR_PORT and more:
    nobody wrote those for us.
    """
    suffix = "_SERVICE_HOST"
    services = [name.removesuffix(suffix) for name in environment if name.endswith(suffix)]
    return tuple(f"{name}_{kind}" for name in services for kind in ("SERVICE", "PORT"))


def _from_flags(overrides: Mapping[str, object]) -> Iterator[_Given]:
    for key, value in overrides.items():
        if key not in settings():
            raise ConfigError(f"flag: unknown key {key}{_meant(nearest_key(key))}")
        parsed = _parsed(settings()[key], value) if isinstance(value, str) else value
        yield _Given(key, parsed, "flag")


def _parsed(setting: Setting, text: str) -> object:
    """A variable's text as YAML would have given it; pydantic reads numbers and booleans itself."""
    if setting.is_nullable and text.lower() in ("", "null"):
        return None
    if setting.is_list:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _validated(given: Mapping[str, _Given]) -> SsdConfig:
    sections: dict[str, dict[str, object]] = defaultdict(dict)
    for each in given.values():
        section, _, name = each.key.partition(".")
        sections[section][name] = each.value
    try:
        return SsdConfig.model_validate(sections)
    except ValidationError as error:
        raise ConfigError(_sentence(error.errors()[0], given)) from error


def _sentence(error: ErrorDetails, given: Mapping[str, _Given]) -> str:
    key = ".".join(map(str, error["loc"][:2]))
    if key not in given:  # two settings contradict each other
        return error["msg"].removeprefix("Value error, ")
    source = given[key]
    place = source.origin.removeprefix("file ")
    return f"{place}: {key} must be {settings()[key].limit}, not {source.value!r}"


def _meant(name: str | None) -> str:
    return f"; did you mean {name}?" if name else ""
