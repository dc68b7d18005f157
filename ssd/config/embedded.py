"""From configured names to folders: the pairs that ship with a checkout, and any other model."""

from pathlib import Path
from typing import Literal

from ssd.config.sections import ModelsSection

_PAIRS = Path(__file__).resolve().parents[2] / "models"

Role = Literal["target", "draft"]


def resolve_model(name: str, *, role: Role, pairs: Path = _PAIRS) -> str:
    """The folder of an embedded pair's model; any other name is a path or hub name already.

    A folder of that name in the working directory is named by ./NAME.
    """
    embedded = pairs / name / role
    return str(embedded) if "/" not in name and embedded.is_dir() else name


def resolve_draft(models: ModelsSection, *, pairs: Path = _PAIRS) -> str | None:
    """Where the draft comes from; None where the service runs without a drafter."""
    if models.draft_layers is not None:
        return resolve_model(models.target, role="target", pairs=pairs)
    if models.draft is not None:
        return resolve_model(models.draft, role="draft", pairs=pairs)
    own = resolve_model(models.target, role="draft", pairs=pairs)
    return own if own != models.target else None
