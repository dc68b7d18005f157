"""The second pair's corpus: what is left out, and what is held out."""

import pytest

from scripts import pystd_corpus


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return pystd_corpus.stdlib_files()


def test_corpus_has_no_tests_and_no_tables(files: dict[str, str]) -> None:
    assert "json/decoder.py" in files
    assert not [name for name in files if {"test", "encodings"} & set(name.split("/"))]


def test_corpus_does_not_depend_on_how_python_was_built(files: dict[str, str]) -> None:
    assert not [name for name in files if name.startswith(("_sysconfigdata", "config-"))]


def test_some_files_are_held_out_but_few(files: dict[str, str]) -> None:
    share = sum(map(pystd_corpus.is_held_out, files)) / len(files)
    assert 0.02 < share < 0.1
