"""Reading the configuration file: YAML without its surprises."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from ssd.core.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """Refuses a key written twice, of which YAML would silently keep the last."""


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[object, object]:
    seen: dict[object, int] = {}
    for key_node, _ in node.value:
        key = loader.construct_object(key_node)
        line = key_node.start_mark.line + 1
        if key in seen:
            raise ConfigError(f"{key} stands in line {seen[key]} and again in line {line}")
        seen[key] = line
    return loader.construct_mapping(node)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


def read_mapping(path: Path) -> Mapping[object, object]:
    """What the file says, its keys and values unchecked; empty for an empty file.

    Raises:
        ConfigError: the file cannot be read or is no YAML mapping.
    """
    document = _parse(path)
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise ConfigError(f"{path}: sections such as `verifier:` are expected, not {document!r}")
    return document


def _parse(path: Path) -> object:
    try:
        return yaml.load(path.read_text("utf-8"), Loader=_Loader)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not text in UTF-8") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
