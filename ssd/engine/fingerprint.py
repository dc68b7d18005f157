"""What decides how a model's logits come out, bit for bit, as far as we can name it.

A session moves only between verifiers of equal fingerprints (docs/architecture.md, invariants).
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

NOISE_VERSION = 1
"""Raised when the noise of `ssd.sampling` changes for any seed."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Equal ones promise the same text for the same request.

    `model_sha256` covers the weights and the configuration: equal weights under another rotary
    embedding are another model.
    """

    model_sha256: str
    dtype: str
    runner: str
    num_layers: int
    parallel_degree: int = 1
    noise_version: int = NOISE_VERSION

    def __str__(self) -> str:
        return (
            f"{self.model_sha256}/{self.dtype}/{self.runner}/layers{self.num_layers}"
            f"/parallel{self.parallel_degree}/noise{self.noise_version}"
        )


def files_sha256(files: Iterable[Path]) -> str:
    """One digest of all files, whatever folder they lie in.

    A file is read once per process, unless its size or time of change differ from then.
    """
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.name):
        status = file.stat()
        digest.update(_file_sha256(file.resolve(), status.st_size, status.st_mtime_ns))
    return digest.hexdigest()


@lru_cache(maxsize=1024)
def _file_sha256(file: Path, _num_bytes: int, _changed_ns: int) -> bytes:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()
