"""Sizes of memory as people write them."""

import re

MEMORY_PATTERN = r"^(auto|\d+(\.\d+)?(KiB|MiB|GiB))$"
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def parse_memory(size: str) -> int | None:
    """Bytes of a checked size such as 1.5GiB; None for `auto`."""
    matched = re.match(r"([\d.]+)([KMG]iB)", size)
    return None if matched is None else int(float(matched[1]) * _UNITS[matched[2]])
