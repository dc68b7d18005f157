"""Distinct prompts of each workload: source held out from training, and asked-for texts.

A prompt never comes twice in a run, so no cache and no table of a drafter can know its answer. For
the pair `pystd` what is asked for is source: for the pair `tales`, tales; the categories are those
that the models of a service see, as far as such small models can be asked.
"""

import json
import random
import sysconfig
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice, product
from pathlib import Path

from ssd.core.errors import ConfigError

_LINES = 14  # of a piece of source that is to be gone on with
_LEAST_CHARACTERS = 240
_MOST_CHARACTERS = 900
_MANIFEST = "MANIFEST.json"


class Workload(StrEnum):
    """What is asked for."""

    CODE = "code"
    EDIT = "edit"
    CHAT = "chat"
    CREATIVE = "creative"
    REASONING = "reasoning"
    SUMMARY = "summary"


def prompts_of(workload: Workload, *, target: Path, count: int, seed: int) -> list[str]:
    """So many prompts, the same for the same seed.

    Raises:
        ConfigError: there are not so many.
    """
    found = list(islice(_distinct(_texts(workload, target, random.Random(seed))), count))
    if len(found) < count:
        raise ConfigError(
            f"there are {len(found)} distinct prompts of workload {workload}, not {count}:"
            " take fewer blocks, prompts or sessions"
        )
    return found


def _texts(workload: Workload, target: Path, order: random.Random) -> Iterator[str]:
    match workload:
        case Workload.CODE:
            return iter(_pieces(target, order))
        case Workload.EDIT:
            return (_edit(each) for each in _pieces(target, order))
        case Workload.SUMMARY:
            return (f"{each.rstrip()}\n\n# In short, the above " for each in _pieces(target, order))
        case _:
            return _asked(workload, order)


def _distinct(texts: Iterator[str]) -> Iterator[str]:
    seen: set[str] = set()
    for text in texts:
        if text not in seen:
            seen.add(text)
            yield text


def _pieces(target: Path, order: random.Random) -> list[str]:
    """Pieces of source, of the files that a pair's manifest holds out or of all, in random order.

    Raises:
        ConfigError: this Python came without the source of its library.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    manifest = target.parent / _MANIFEST
    names = json.loads(manifest.read_text())["held_out_files"] if manifest.exists() else []
    files = [root / name for name in names or _SOME_FILES]
    pieces = [piece for file in files if file.is_file() for piece in _pieces_of(file)]
    if not pieces:
        raise ConfigError(f"there is no source of the standard library below {root}")
    order.shuffle(pieces)
    return pieces


_SOME_FILES = ("ast.py", "calendar.py", "decimal.py", "pydoc.py", "random.py", "warnings.py")


def _pieces_of(file: Path) -> Iterator[str]:
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    for start in range(0, len(lines) - _LINES, _LINES):
        piece = "\n".join(lines[start : start + _LINES]) + "\n"
        if _LEAST_CHARACTERS <= len(piece) <= _MOST_CHARACTERS:
            yield piece


def _edit(piece: str) -> str:
    """A copy task: the piece is written once more, as an editor's assistant does."""
    first = piece.splitlines()[0]
    return f"# before\n{piece}\n# after\n{piece}\n# before\n{piece}\n# after\n{first}\n"


_NAMES = (
    "Mira",
    "Tom",
    "Ella",
    "Rosa",
    "Jan",
    "Ada",
    "Otto",
    "Lena",
    "Finn",
    "Nora",
    "Paul",
    "Ida",
)
_THINGS = ("lantern", "kite", "boat", "drum", "bell", "map", "coat", "ladder", "basket", "clock")
_PLACES = ("mill", "harbour", "forest", "bridge", "market", "school", "garden", "tower")


def _asked(workload: Workload, order: random.Random) -> Iterator[str]:
    """Requests made of a pattern and three words."""
    patterns = _PATTERNS[workload]
    triples = list(product(_NAMES, _THINGS, _PLACES))
    order.shuffle(triples)
    for index, (name, thing, place) in enumerate(triples):
        yield patterns[index % len(patterns)].format(name=name, thing=thing, place=place)


def _as_user(words: str) -> str:
    """A user's turn, in the form of the embedded pairs' chat template."""
    return f"<|user|>\n{words}<|end|>\n<|assistant|>\n"


_PATTERNS = {
    Workload.CHAT: (
        _as_user("Please tell a tale about {name}, a {thing} and a {place}."),
        _as_user("Tell me of {name}, who lost a {thing} at the {place}."),
    ),
    Workload.CREATIVE: (
        "Once upon a time {name} found a {thing} by the {place}.",
        "Long ago there lived near the {place} a child called {name}, who had a {thing}.",
    ),
    Workload.REASONING: (
        "{name} has three of every {thing} at the {place} and gives one away. First,",
        "If {name} takes the {thing} from the {place} and brings it back, where is it? Step 1:",
    ),
}
