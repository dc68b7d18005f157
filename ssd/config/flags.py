"""Settings given on a command line as KEY=VALUE, and a configuration written that way."""

from collections.abc import Sequence

from ssd.config.setting import settings
from ssd.config.ssd_config import SsdConfig
from ssd.core.errors import ConfigError


def parse_assignments(assignments: Sequence[str]) -> dict[str, object]:
    """The overrides that --set KEY=VALUE asks for.

    Raises:
        ConfigError: one of them has no equals sign.
    """
    overrides: dict[str, object] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ConfigError(f"flag: --set takes KEY=VALUE, not {assignment!r}")
        overrides[key] = value
    return overrides


def as_assignments(config: SsdConfig) -> list[str]:
    """The --set options that give another process this configuration, whatever its environment."""
    values = config.model_dump(mode="json")
    options = []
    for key in settings():
        section, name = key.split(".")
        options += ["--set", f"{key}={_text(values[section][name])}"]
    return options


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return ",".join(str(each) for each in value)
    return str(value)
