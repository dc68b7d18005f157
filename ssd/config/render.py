"""The configuration as text: the commented example file, and what `ssd config show` prints."""

from collections.abc import Iterator

import yaml

from ssd.config.loading import LoadedConfig
from ssd.config.setting import Setting, section_descriptions, settings

_HEAD = """\
# Every setting with its default. Copy this file to ssd.yaml and keep the lines you change.
# A flag goes before a variable, a variable before this file.
"""


def render_example() -> str:
    """A configuration file with every setting, its description, its limit and its default."""
    return "\n".join([_HEAD, *map(_section, section_descriptions())])


def render_origins(loaded: LoadedConfig) -> str:
    """One line per setting: key, value, and where the value came from."""
    values = flat_values(loaded)
    key_width = max(map(len, values))
    value_width = max(len(_inline(value)) for value in values.values())
    return "".join(
        f"{key:<{key_width}}  {_inline(value):<{value_width}}  {loaded.origins[key]}\n"
        for key, value in values.items()
    )


def flat_values(loaded: LoadedConfig) -> dict[str, object]:
    """Every value by dotted key, as JSON and YAML can hold it."""
    sections = loaded.config.model_dump(mode="json")
    return {
        f"{section}.{name}": value
        for section, body in sections.items()
        for name, value in body.items()
    }


def _section(section: str) -> str:
    lines = [f"# {section_descriptions()[section]}", f"{section}:"]
    for setting in settings().values():
        if setting.section == section:
            lines += _commented(setting)
    return "\n".join(lines) + "\n"


def _commented(setting: Setting) -> Iterator[str]:
    yield f"  # {setting.description}"
    yield f"  # {setting.limit}; {setting.environment_name}"
    yield f"  {setting.name}: {_inline(setting.default)}"


def _inline(value: object) -> str:
    """A value in YAML, on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("...\n").strip()
