"""The measurements drawn; importing this loads matplotlib."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ssd.core.rounds import Lookup
from ssd.measure.recommendation import Compared, Recommendation
from ssd.report.timeline_colours import GRID, INK, UNUSED, USED, VERIFY_COLOURS

_WIDTH = 0.38


def draw_measured(recommendations: Sequence[Recommendation], path: Path) -> None:
    """Speed-ups, measured and expected, above; shares of the cycle below."""
    bars = [(each, way) for each in recommendations for way in each.ways]
    labels = [f"{way.measured.way}\nt = {each.temperature:g}" for each, way in bars]
    figure = Figure(figsize=(max(6.0, 1.3 * len(bars) + 2), 6.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    _speed_ups(above, [way for _, way in bars])
    _shares(below, [way for _, way in bars])
    below.set_xticks(range(len(bars)), labels, fontsize=8)
    for axes in (above, below):
        axes.grid(axis="y", color=GRID)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _speed_ups(axes: Axes, ways: Sequence[Compared]) -> None:
    places = range(len(ways))
    measured = [way.speed_up for way in ways]
    expected = [way.expected or 0.0 for way in ways]
    axes.bar([each - _WIDTH / 2 for each in places], measured, _WIDTH, color=USED, label="measured")
    axes.bar(
        [each + _WIDTH / 2 for each in places], expected, _WIDTH, color=UNUSED, label="expected"
    )
    axes.axhline(1.0, color=INK, linewidth=1)
    axes.set_ylabel("times plain decoding")


def _shares(axes: Axes, ways: Sequence[Compared]) -> None:
    places = range(len(ways))
    shares = {
        "verifying": ([way.measured.verify_share for way in ways], VERIFY_COLOURS[Lookup.HIT]),
        "drafting": ([way.measured.draft_share for way in ways], UNUSED),
    }
    for offset, (label, (values, colour)) in zip((-0.5, 0.5), shares.items(), strict=True):
        axes.bar(
            [each + offset * _WIDTH for each in places], values, _WIDTH, color=colour, label=label
        )
    axes.set_ylim(0.0, 1.0)
    axes.set_ylabel("share of the cycle")
