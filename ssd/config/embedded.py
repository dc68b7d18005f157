"""The model pairs that ship with a checkout, in models/NAME/target and models/NAME/draft."""

from pathlib import Path
from typing import Literal

_PAIRS = Path(__file__).resolve().parents[2] / "models"

Role = Literal["target", "draft"]


def resolve_model(name: str, *, role: Role, pairs: Path = _PAIRS) -> str:
    """The folder of an embedded pair's model; any other name is a path or hub name already.

    A folder of that name in the working directory is named by ./NAME.
    """
    embedded = pairs / name / role
    return str(embedded) if "/" not in name and embedded.is_dir() else name
