"""The second pair's corpus: the source of the Python standard library this interpreter runs on.

Tests, vendored packages and generated tables are left out: tables are long, repeat themselves and
teach a small model nothing. What the interpreter's own build wrote is left out too, for it differs
from one machine to the next. A file is held out by a hash of its name, so adding or removing other
files never moves it from one side to the other.
"""

import hashlib
import sysconfig
from pathlib import Path

SKIPPED_DIRS = frozenset(
    {"site-packages", "test", "tests", "idle_test", "idlelib", "lib2to3", "encodings",
     "pydoc_data", "__pycache__"}
)  # fmt: skip
BUILD_PREFIXES = ("_sysconfigdata", "config-")
HELD_OUT_ONE_IN = 20


def stdlib_files() -> dict[str, str]:
    """Every file of the corpus, by its path below the library's folder, in a stable order."""
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(path.relative_to(root) for path in root.rglob("*.py"))
    return {
        path.as_posix(): (root / path).read_text(encoding="utf-8", errors="replace")
        for path in paths
        if SKIPPED_DIRS.isdisjoint(path.parts) and not path.parts[0].startswith(BUILD_PREFIXES)
    }


def is_held_out(name: str) -> bool:
    """Whether a file is kept from training, decided by its name alone."""
    return hashlib.sha256(name.encode()).digest()[0] % HELD_OUT_ONE_IN == 0
