"""Figures as a table and as JSON."""

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from rich.table import Table

from ssd.bench.figure import Figure


def figures_table(figures: Sequence[Figure]) -> Table:
    """One row a figure; what missed its limit is red."""
    table = Table("figure", "value", "limit", "", header_style="bold")
    for column in table.columns[1:3]:
        column.justify = "right"
    for figure in figures:
        limit = "" if figure.limit is None else f"{figure.limit:g} {figure.unit}"
        style = "" if figure.is_met else "red"
        value = f"{figure.value:.2f} {figure.unit}"
        table.add_row(figure.name, f"[{style}]{value}[/]" if style else value, limit, figure.note)
    return table


def report_json(figures: Sequence[Figure]) -> Mapping[str, Any]:
    """The figures and the machine they come from."""
    return {
        "machine": {
            "processor": _processor(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        },
        "figures": [
            {
                "name": figure.name,
                "value": figure.value,
                "unit": figure.unit,
                "limit": figure.limit,
                "is_met": figure.is_met,
                "note": figure.note,
            }
            for figure in figures
        ],
    }


def _processor() -> str:
    name = str(torch.backends.cpu.get_cpu_capability())
    return f"{platform.machine()} {name}"
