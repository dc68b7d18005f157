"""What a setting's value may be: numbers with limits, texts, and the base of all sections."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ssd.config.memory import MEMORY_PATTERN


def _refuse_boolean(value: object) -> object:
    """YAML's `yes` and `on` are booleans, which pydantic would take for the number 1."""
    if isinstance(value, bool):
        raise ValueError("a boolean is no number")
    return value


_NO_BOOLEAN = BeforeValidator(_refuse_boolean)

Count = Annotated[int, Field(ge=1), _NO_BOOLEAN]
Index = Annotated[int, Field(ge=0), _NO_BOOLEAN]
Siblings = Annotated[int, Field(ge=1, le=8), _NO_BOOLEAN]
Port = Annotated[int, Field(ge=0, le=65535), _NO_BOOLEAN]
Seconds = Annotated[float, Field(gt=0), _NO_BOOLEAN]
Fraction = Annotated[float, Field(ge=0, le=1), _NO_BOOLEAN]
Milliseconds = Annotated[float, Field(ge=0), _NO_BOOLEAN]
Share = Annotated[float, Field(gt=0, le=1), _NO_BOOLEAN]
Text = Annotated[str, Field(min_length=1)]
Label = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
Address = Annotated[str, Field(pattern=r"^\S+:\d{1,5}$", title="HOST:PORT")]

Memory = Annotated[str, Field(pattern=MEMORY_PATTERN, examples=["auto", "512MiB", "4GiB"])]
Dtype = Literal["fp64", "fp32", "bf16", "fp16"]


class Section(BaseModel):
    """Base of the sections: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )
