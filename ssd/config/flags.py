"""Settings given on a command line as KEY=VALUE."""

from collections.abc import Sequence

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
