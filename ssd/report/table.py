"""The runs side by side: a row per mode and temperature, medians over the prompts."""

from collections.abc import Callable, Sequence
from statistics import median

from rich import box
from rich.table import Table

from ssd.core.mode import Mode
from ssd.core.rounds import Lookup
from ssd.report.comparison import Comparison
from ssd.report.run_record import RunRecord

_COLUMNS = (
    *("\nmode", "\ntemp", "\ntokens/s", "times\nar", "per\nround", "accept-\nance"),
    *("hit\nrate", "misses: late,\nkey, absent", "\nbusy", "over-\nlap", "use-\nful", "same\nids"),
)
_NO_FIGURE = "-"


def results_table(comparison: Comparison) -> Table:
    """Every mode and temperature that was run, in the order of the modes; 80 columns wide."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    for column in _COLUMNS:
        is_name = column == _COLUMNS[0]
        table.add_column(column, justify="left" if is_name else "right", no_wrap=True)
    for temperature in sorted({run.request.temperature for run in comparison.runs}):
        for mode in Mode:
            if runs := comparison.of(mode, temperature):
                table.add_row(*_cells(comparison, runs), end_section=mode is Mode.AR)
    return table


def _cells(comparison: Comparison, runs: Sequence[RunRecord]) -> list[str]:
    request = runs[0].request
    speed = _median(runs, _speed)
    plain_speed = _median(comparison.of(Mode.AR, request.temperature), _speed)
    is_same = all(comparison.difference(run) is None for run in runs)
    return [
        request.mode.value,
        f"{request.temperature:g}",
        f"{speed:.0f}",
        f"{speed / plain_speed:.2f}" if plain_speed > 0 else _NO_FIGURE,
        f"{_median(runs, lambda run: run.figures.tokens_per_round):.2f}",
        *_drafting_cells(runs),
        "[green]yes[/green]" if is_same else "[bold red]NO[/bold red]",
    ]


def _drafting_cells(runs: Sequence[RunRecord]) -> list[str]:
    """Without drafts only how busy the verifier was means something."""
    busy = f"{_median(runs, lambda run: run.figures.busy):.2f}"
    if runs[0].request.mode is Mode.AR:
        return [_NO_FIGURE, _NO_FIGURE, _NO_FIGURE, busy, _NO_FIGURE, _NO_FIGURE]
    return [
        f"{_median(runs, lambda run: run.figures.acceptance):.2f}",
        f"{_median(runs, lambda run: run.figures.hit_rate):.2f}",
        "".join(
            f"{_median_misses(runs, reason):4.0f}"
            for reason in (Lookup.MISS_LATE, Lookup.MISS_KEY, Lookup.MISS_ABSENT)
        ),
        busy,
        f"{_median(runs, lambda run: run.figures.overlap):.2f}",
        f"{_median(runs, lambda run: run.figures.useful_overlap):.2f}",
    ]


def _speed(run: RunRecord) -> float:
    return run.tokens_per_s


def _median(runs: Sequence[RunRecord], figure: Callable[[RunRecord], float]) -> float:
    return median(figure(run) for run in runs)


def _median_misses(runs: Sequence[RunRecord], reason: Lookup) -> float:
    return median(run.figures.misses[reason] for run in runs)
