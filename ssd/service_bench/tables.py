"""Results as a terminal shows them."""

from collections.abc import Sequence

from rich.table import Table

from ssd.core.mode import Mode
from ssd.service_bench.results import Conditions, Result, ratios_of

_HEADINGS = (
    "padded",
    "sessions",
    "tokens/s",
    "quartiles",
    "a round",
    "accept",
    "hits",
    "verify",
    "step",
    "wait ms",
    "busy",
    "same",
)


def results_table(conditions: Conditions, results: Sequence[Result]) -> Table:
    """A row for each contender and number of sessions; every one says whether it was padded."""
    padded = ", padded" if conditions.widths is not None else ""
    plan = conditions.plan
    title = (
        f"{conditions.pair}, {conditions.workload}, regime {conditions.regime}{padded},"
        f" {conditions.dtype}, temperature {plan.temperature:g}, rule {plan.rule}"
    )
    table = Table("mode", title=title, header_style="bold", box=None)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(*_cells(result, is_padded=conditions.widths is not None))
    return table


def ratio_lines(results: Sequence[Result]) -> list[str]:
    """A line for each number of sessions."""
    lines = []
    for sessions in sorted({each.lane.sessions for each in results}):
        ratios = ratios_of(results, sessions)
        words = ", ".join(
            f"{name.replace('_over_', ' / ')} {value:.2f}" for name, value in ratios.items()
        )
        lines.append(f"{sessions} session{'s' if sessions > 1 else ''}: {words}")
    return lines


def _cells(result: Result, *, is_padded: bool) -> list[str]:
    figures, contender = result.figures, result.lane.contender
    depth = "" if contender.depth is None else f" K={contender.depth}"
    is_drafted = contender.mode is not Mode.AR
    lower, upper = result.spread
    return [
        f"{result.name}{depth}",
        "yes" if is_padded else "no",
        str(result.lane.sessions),
        f"{result.tokens_per_s:.1f}",
        f"{lower:.0f}-{upper:.0f}",
        f"{figures.tokens_per_round:.2f}",
        f"{figures.acceptance:.2f}" if is_drafted else "-",
        f"{figures.hit_rate:.2f}" if contender.mode is Mode.SSD else "-",
        f"{figures.verify_ms:.1f}",
        f"{figures.draft_step_ms:.2f}" if is_drafted else "-",
        f"{figures.wait_ms:.2f}",
        f"{figures.busy:.2f}",
        _same(result),
    ]


def _same(result: Result) -> str:
    if result.identical is not None:
        return "yes" if result.identical else "NO"
    return "-" if result.num_same is None else f"{result.num_same}/{result.num_texts}"
