"""Measurements as a table, and as JSON."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

from ssd.core.mode import Mode
from ssd.measure.measurement import Measurement
from ssd.measure.recommendation import Compared, Recommendation
from ssd.report import Comparison, RunRecord

_COLUMNS = (
    *("\ntemp", "\nway", "\ntokens/s", "times\nar", "ex-\npected", "accept-\nance"),
    *("per\nround", "hit\nrate", "verify\nshare", "draft\nshare"),
)


def measured_table(recommendations: Sequence[Recommendation]) -> Table:
    """A row for every way at every temperature; the best is bold."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    for column in _COLUMNS:
        table.add_column(column, justify="left" if "way" in column else "right", no_wrap=True)
    for each in recommendations:
        _add_plain(table, each)
        for way in each.ways:
            style = "bold" if way is each.best else ""
            table.add_row(f"{each.temperature:g}", *_cells(way), style=style)
        table.add_section()
    return table


def _add_plain(table: Table, each: Recommendation) -> None:
    plain = each.plain
    figures = [f"{plain.tokens_per_s:.1f}", "1.00", "-", "-", "1.00", "-"]
    table.add_row(f"{each.temperature:g}", "ar", *figures, f"{plain.verify_share:.2f}", "-")


def _cells(compared: Compared) -> list[str]:
    measured = compared.measured
    is_ahead = measured.way.mode is Mode.SSD
    return [
        str(measured.way),
        f"{measured.tokens_per_s:.1f}",
        f"{compared.speed_up:.2f}",
        "-" if compared.expected is None else f"{compared.expected:.2f}",
        f"{measured.acceptance:.2f}",
        f"{measured.tokens_per_round:.2f}",
        f"{measured.hit_rate:.2f}" if is_ahead else "-",
        f"{measured.verify_share:.2f}",
        f"{measured.draft_share:.2f}",
    ]


def report_json(recommendations: Sequence[Recommendation]) -> dict[str, Any]:
    """Every figure and every recommendation."""
    runs = [
        run
        for each in recommendations
        for measured in (each.plain, *(way.measured for way in each.ways))
        for run in measured.runs
    ]
    return {
        "identical_to_ar": not differences(runs),
        "ways": [
            record
            for each in recommendations
            for record in (_plain_record(each.plain), *map(_record, each.ways))
        ],
        "recommendations": [
            {
                "temperature": each.temperature,
                "speculate": each.best is not None,
                "way": None if each.best is None else str(each.best.measured.way),
                "max_depth": None if each.best is None else each.best.measured.useful_depth,
                "words": each.words,
            }
            for each in recommendations
        ],
    }


def differences(runs: Sequence[RunRecord]) -> tuple[object, ...]:
    """Where a way changed a text; see `ssd.report.comparison`."""
    return Comparison(tuple(runs)).differences


def _plain_record(plain: Measurement) -> dict[str, Any]:
    return {**_figures(plain), "speed_up": 1.0, "expected_speed_up": None}


def _record(compared: Compared) -> dict[str, Any]:
    return {
        **_figures(compared.measured),
        "speed_up": compared.speed_up,
        "expected_speed_up": compared.expected,
        "step_share_of_verification": compared.step_share,
    }


def _figures(measured: Measurement) -> dict[str, Any]:
    return {
        "temperature": measured.temperature,
        "way": str(measured.way),
        "mode": measured.way.mode.value,
        "drafter": measured.way.drafter or None,
        "max_nodes": measured.way.limits.max_nodes,
        "num_prompts": len(measured.runs),
        "num_tokens": sum(run.num_tokens for run in measured.runs),
        "tokens_per_s": measured.tokens_per_s,
        "client_tokens_per_s": measured.client_tokens_per_s,
        "acceptance": measured.acceptance,
        "node_yield": measured.node_yield,
        "tokens_per_round": measured.tokens_per_round,
        "hit_rate": measured.hit_rate,
        "verify_share": measured.verify_share,
        "draft_share": measured.draft_share,
        "verify_ms": measured.verify_s * 1e3,
        "step_ms": measured.step_s * 1e3,
        "useful_depth": measured.useful_depth,
        "came_in_bursts": measured.came_in_bursts,
    }
