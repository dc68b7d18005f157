"""The digests by which a pair's manifest vouches for its files; free of torch, for the tests."""

import hashlib
from pathlib import Path

MANIFEST_NAME = "MANIFEST.json"


def file_digests(folder: Path) -> dict[str, str]:
    """The sha256 of every file of a pair but its manifest, by path below the pair's folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST_NAME
    }
