"""timeline.png of a demo; importing this loads matplotlib."""

from pathlib import Path

from ssd.core.mode import Mode
from ssd.report.comparison import Comparison
from ssd.report.demo_report import DemoReport
from ssd.report.run_record import RunRecord
from ssd.report.timeline import draw_timeline

_NUM_DRAWN_ROUNDS = 40


def draw_demo(report: DemoReport, path: Path) -> None:
    """Draw the first rounds of a run in mode ssd."""
    run = run_to_draw(report.comparison)
    draw_timeline(
        run.rounds,
        run.growth,
        path,
        title=_title(report, run),
        caption=_caption(run),
        num_rounds=_NUM_DRAWN_ROUNDS,
    )


def run_to_draw(comparison: Comparison) -> RunRecord:
    """The first that fills the picture, or else the one that comes nearest."""
    runs = [run for run in comparison.runs if run.request.mode is Mode.SSD]
    return max(runs, key=lambda run: min(len(run.rounds), _NUM_DRAWN_ROUNDS))


def _title(report: DemoReport, run: RunRecord) -> str:
    request = run.request
    num_drawn = min(_NUM_DRAWN_ROUNDS, len(run.rounds))
    return (
        f"Drafting while verifying: {num_drawn} of {len(run.rounds)} rounds,"
        f" {report.served.target}, prompt “{request.prompt_name}”,"
        f" temperature {request.temperature:g}"
    )


def _caption(run: RunRecord) -> str:
    return f"{run.summary}  Number in a box: drafted tokens accepted."
