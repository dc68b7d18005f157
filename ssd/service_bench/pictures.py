"""Pictures of a race: speeds side by side, and curves where something was varied."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ssd.service_bench.results import Conditions, Result, ratios_of

_COLOURS = {
    "ar": "#9aa0a6",
    "ar2": "#c3c7cb",
    "sd": "#e8a33d",
    "sd2": "#f2cf96",
    "sd_tree": "#c8743a",
    "ssd": "#2f6fb0",
}
_PUBLISHED = {1: 1.96, 128: 1.21}
"""SSD over the best of the others by batch size, as its authors report."""


def draw(conditions: Conditions, results: Sequence[Result], folder: Path) -> list[Path]:
    """The pictures, written as SVG; their paths."""
    sessions = sorted({each.lane.sessions for each in results})
    drawn = [_written(_bars(conditions, results, sessions[0]), folder / "modes.svg")]
    if len(sessions) > 1:
        drawn.append(_written(_curve(results, sessions), folder / "sessions.svg"))
    return drawn


def _bars(conditions: Conditions, results: Sequence[Result], sessions: int) -> Figure:
    shown = [each for each in results if each.lane.sessions == sessions]
    figure, axes = _empty(f"{conditions.regime}, temperature {conditions.plan.temperature:g}")
    speeds = [each.tokens_per_s for each in shown]
    errors = [
        [each.tokens_per_s - each.spread[0] for each in shown],
        [each.spread[1] - each.tokens_per_s for each in shown],
    ]
    colours = [_COLOURS.get(each.name.partition("+")[0], "#2f6fb0") for each in shown]
    bars = axes.bar([each.name for each in shown], speeds, color=colours, yerr=errors, capsize=3)
    axes.bar_label(bars, [f"{speed:.0f}" for speed in speeds], padding=2)
    padded = " (padded)" if conditions.widths is not None else ""
    axes.set_ylabel(f"tokens/s{padded}")
    return figure


def _curve(results: Sequence[Result], sessions: Sequence[int]) -> Figure:
    figure, axes = _empty("by number of sessions")
    by_sessions = {each: ratios_of(results, each) for each in sessions}
    for name, colour in (("ssd_over_ar", _COLOURS["ssd"]), ("ssd_over_sd", _COLOURS["sd"])):
        points = [(each, found[name]) for each, found in by_sessions.items() if name in found]
        if points:
            label = name.replace("_over_", " / ")
            axes.plot(*zip(*points, strict=True), marker="o", color=colour, label=label)
    axes.plot(
        list(_PUBLISHED), list(_PUBLISHED.values()), "x--", color="grey", label="published, GPUs"
    )
    axes.axhline(1.0, color="grey", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(sessions), [str(each) for each in sessions])
    axes.set_xlabel("sessions")
    axes.set_ylim(bottom=0.0)
    axes.legend()
    return figure


def _empty(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _written(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path
