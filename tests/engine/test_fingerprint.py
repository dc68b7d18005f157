"""Fingerprints tell apart what could differ in its text."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ssd.engine.fingerprint import Fingerprint, files_sha256

FINGERPRINT = Fingerprint(model_sha256="ab", dtype="fp32", runner="lean", num_layers=2)


def test_it_reads_the_same_in_every_version() -> None:
    # Journals hold these strings.
    assert str(FINGERPRINT) == "ab/fp32/lean/layers2/parallel1/noise1"


@pytest.mark.parametrize(
    "change",
    [
        {"model_sha256": "ac"},
        {"dtype": "bf16"},
        {"runner": "transformers"},
        {"num_layers": 1},
        {"parallel_degree": 2},
        {"noise_version": 2},
    ],
)
def test_every_field_counts(change: dict[str, str | int]) -> None:
    assert str(replace(FINGERPRINT, **change)) != str(FINGERPRINT)  # type: ignore[arg-type]


def test_digest_follows_the_bytes_and_not_the_folder(tmp_path: Path) -> None:
    first = _write(tmp_path / "a", b"weights")
    assert files_sha256([first]) == files_sha256([_write(tmp_path / "b", b"weights")])
    assert files_sha256([first]) != files_sha256([_write(tmp_path / "c", b"Weights")])


def test_digest_does_not_depend_on_the_order_of_shards(tmp_path: Path) -> None:
    shards = [_write(tmp_path, b"one", "1"), _write(tmp_path, b"two", "2")]
    assert files_sha256(shards) == files_sha256(shards[::-1])


def test_a_rewritten_file_is_read_again(tmp_path: Path) -> None:
    file = _write(tmp_path, b"weights")
    before = files_sha256([file])
    file.write_bytes(b"Weights")
    os.utime(file, ns=(1, 1))
    assert files_sha256([file]) != before


def _write(folder: Path, content: bytes, name: str = "model.safetensors") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name
