"""A picture of rounds: what the drafter did while the verifier worked, on one axis of time.

drafter    [7][8 ][9]   [10][11]       growth steps, dark where the verifier used one of their nodes
verifier   [── 3 ──]  ░░[── 0 ──]      forwards coloured by what was found at their end, and waits
           0         10         20 ms

Many rounds are cut into strips of about equal duration, one below the other, on the same scale.

Importing this loads matplotlib, which takes a second: import it where a picture is drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ssd.core.rounds import GrowthSpan, Lookup, RoundRecord
from ssd.report.timeline_colours import (
    GRID,
    HATCH,
    IDLE,
    INK,
    UNUSED,
    USED,
    VERIFY_COLOURS,
    VERIFY_WORDS,
)

_ROUNDS_PER_STRIP = 14
_WIDTH_INCHES, _STRIP_INCHES = 16.0, 1.9
_HEAD_INCHES, _FOOT_INCHES = 1.1, 0.5
_LEFT, _RIGHT = 0.06, 0.985  # of the width
_DPI = 100  # 1600 pixels wide
_DRAFTER, _VERIFIER = 1.0, 0.0  # the lanes' middles
_LANE = 0.74  # a lane's height
_DIGIT_PIXELS = 10

_HATCH_PATTERN = "////"


@dataclass(frozen=True, slots=True)
class Strip:
    """Consecutive rounds of one row of the picture, from the end of the row before."""

    start_ns: int
    rounds: tuple[RoundRecord, ...]

    @property
    def end_ns(self) -> int:
        return self.rounds[-1].end_ns


@dataclass(frozen=True, slots=True)
class Scale:
    """How time becomes a place: milliseconds since the first launch, all strips equally wide."""

    origin_ns: int
    width_ms: float

    def ms(self, time_ns: int) -> float:
        return (time_ns - self.origin_ns) / 1e6

    def pixels(self, duration_ns: int) -> float:
        return duration_ns / 1e6 / self.width_ms * (_RIGHT - _LEFT) * _WIDTH_INCHES * _DPI


def draw_timeline(
    rounds: Sequence[RoundRecord],
    growth: Sequence[GrowthSpan],
    path: Path,
    *,
    title: str,
    caption: str = "",
    num_rounds: int = 40,
) -> None:
    """Write a PNG of the first rounds, 1600 pixels wide; `caption` stands below the title.

    Raises:
        ValueError: there is no round to draw.
    """
    if not rounds:
        raise ValueError("a timeline needs at least one round")
    drawn = rounds[:num_rounds]
    strips = cut_into_strips(drawn)
    scale = Scale(strips[0].start_ns, max(each.end_ns - each.start_ns for each in strips) / 1e6)
    used_steps = {step for each in rounds for step in each.verified_steps}
    figure, all_axes = _sheet(len(strips))
    for axes, strip in zip(all_axes, strips, strict=True):
        _prepare(axes, scale, strip)
        _draw_growth(axes, scale, strip, growth, used_steps=used_steps)
        _draw_rounds(axes, scale, strip)
    all_axes[-1].set_xlabel("milliseconds since the first launch", color=INK)
    _write_head(figure, title, caption)
    _add_legend(figure, {each.lookup for each in drawn})
    figure.savefig(path)


def cut_into_strips(rounds: Sequence[RoundRecord]) -> tuple[Strip, ...]:
    """Divide rounds where equal shares of their time end; no strip is empty."""
    num_strips = ceil(len(rounds) / _ROUNDS_PER_STRIP)
    start_ns = rounds[0].launch_ns
    total_ns = max(rounds[-1].end_ns - start_ns, 1)
    rows: list[list[RoundRecord]] = [[] for _ in range(num_strips)]
    for each in rounds:
        middle_ns = (each.launch_ns + each.end_ns) // 2 - start_ns
        rows[min(middle_ns * num_strips // total_ns, num_strips - 1)].append(each)
    strips: list[Strip] = []
    for row in filter(None, rows):
        strips.append(Strip(strips[-1].end_ns if strips else start_ns, tuple(row)))
    return tuple(strips)


def _sheet(num_strips: int) -> tuple[Figure, list[Axes]]:
    height = _HEAD_INCHES + _STRIP_INCHES * num_strips + _FOOT_INCHES
    figure = Figure(figsize=(_WIDTH_INCHES, height), dpi=_DPI, facecolor="white")
    FigureCanvasAgg(figure)
    figure.subplots_adjust(
        left=_LEFT,
        right=_RIGHT,
        top=1 - _HEAD_INCHES / height,
        bottom=_FOOT_INCHES / height,
        hspace=0.32,
    )
    return figure, [figure.add_subplot(num_strips, 1, row + 1) for row in range(num_strips)]


def _prepare(axes: Axes, scale: Scale, strip: Strip) -> None:
    start_ms = scale.ms(strip.start_ns)
    axes.set_xlim(start_ms, start_ms + scale.width_ms)
    axes.set_ylim(_VERIFIER - 0.5, _DRAFTER + 0.5)
    axes.set_yticks([_VERIFIER, _DRAFTER], ["verifier", "drafter"], fontsize=12)
    axes.tick_params(axis="both", colors=INK)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(HATCH)
    for lane in (_DRAFTER, _VERIFIER):
        _add_box(axes, lane, start_ms, scale.ms(strip.end_ns), IDLE)


def _draw_growth(
    axes: Axes,
    scale: Scale,
    strip: Strip,
    growth: Sequence[GrowthSpan],
    *,
    used_steps: set[int],
) -> None:
    for span in growth:
        start_ns, end_ns = max(span.start_ns, strip.start_ns), min(span.end_ns, strip.end_ns)
        if start_ns < end_ns:
            colour = USED if span.step in used_steps else UNUSED
            _add_box(axes, _DRAFTER, scale.ms(start_ns), scale.ms(end_ns), colour)


def _draw_rounds(axes: Axes, scale: Scale, strip: Strip) -> None:
    for each in strip.rounds:
        launch_ms, end_ms = scale.ms(each.launch_ns), scale.ms(each.end_ns)
        waits_from_ms = scale.ms(max(each.launch_ns - each.wait_ns, strip.start_ns))
        if waits_from_ms < launch_ms:
            _add_wait(axes, waits_from_ms, launch_ms)
        _add_box(axes, _VERIFIER, launch_ms, end_ms, VERIFY_COLOURS[each.lookup])
        words = str(each.num_accepted)
        if scale.pixels(each.verify_ns) > _DIGIT_PIXELS * (len(words) + 0.5):
            axes.text(
                (launch_ms + end_ms) / 2,
                _VERIFIER,
                words,
                ha="center",
                va="center",
                fontsize=12,
                color="white",
                weight="bold",
            )


def _add_box(axes: Axes, lane: float, start_ms: float, end_ms: float, colour: str) -> None:
    axes.broken_barh(
        [(start_ms, end_ms - start_ms)],
        (lane - _LANE / 2, _LANE),
        facecolor=colour,
        edgecolor="white",
        linewidth=0.5,
    )


def _add_wait(axes: Axes, start_ms: float, end_ms: float) -> None:
    axes.broken_barh(
        [(start_ms, end_ms - start_ms)],
        (_VERIFIER - _LANE / 2, _LANE),
        facecolor="white",
        edgecolor=HATCH,
        linewidth=0.0,
        hatch=_HATCH_PATTERN,
    )


def _write_head(figure: Figure, title: str, caption: str) -> None:
    height = figure.get_figheight()
    figure.text(*(_LEFT, 1 - 0.14 / height), title, va="top", fontsize=16, color=INK, weight="bold")
    figure.text(*(_LEFT, 1 - 0.46 / height), caption, va="top", fontsize=11.5, color=INK)


def _add_legend(figure: Figure, found: set[Lookup]) -> None:
    """Every colour that the picture may hold; of the lookups only those that it does."""
    handles = [
        Patch(facecolor=USED, label="draft step, used"),
        Patch(facecolor=UNUSED, label="unused"),
        *(
            Patch(facecolor=VERIFY_COLOURS[kind], label=VERIFY_WORDS[kind])
            for kind in Lookup
            if kind in found
        ),
        Patch(facecolor="white", edgecolor=HATCH, hatch=_HATCH_PATTERN, label="verifier waits"),
    ]
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(_LEFT, 1 - 0.72 / figure.get_figheight()),
        ncols=len(handles),
        frameon=False,
        fontsize=11,
        handlelength=1.4,
        columnspacing=1.6,
        borderpad=0.0,
        borderaxespad=0.0,
    )
