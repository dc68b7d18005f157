"""Refusals of the command line in our own words."""

from typing import Any

import typer
from typer.core import TyperGroup

_PREFIX = "Value error, "  # of pydantic, by which typer checks what an option may be


class PlainErrors(TyperGroup):
    """A group of commands whose refusals do not say which library found them."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix(_PREFIX)
            raise
