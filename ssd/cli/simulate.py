"""`ssd simulate`: what a cluster would do, from the times of its forwards."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ssd.cli.options import one_sentence_errors
from ssd.core.errors import ConfigError
from ssd.core.mode import Mode
from ssd.simulate import Costs, Outcome, Prediction, Scenario, SyntheticText, predict_paper
from ssd.simulate import simulate as run
from ssd.simulate.paper import COMMON_ASSUMPTIONS, PAIRS

_SESSIONS = (1, 2, 4, 8, 16, 32, 64, 128)
_DELAYS_MS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
_DRAFTERS = (1, 2, 3, 4)
_MODES = (Mode.AR, Mode.SD, Mode.SSD)


class Vary(StrEnum):
    """What a sweep changes, everything else as given."""

    SESSIONS = "sessions"
    DELAY = "delay"
    DRAFTERS = "drafters"


@dataclass(frozen=True, slots=True)
class _Point:
    """One scenario in all three modes."""

    label: str
    outcomes: dict[Mode, Outcome]

    def times(self, mode: Mode, base: Mode) -> float:
        return self.outcomes[mode].tokens_per_s / self.outcomes[base].tokens_per_s


def simulate(
    verify_ms: Annotated[
        float, typer.Option(min=1e-3, help="A verification, without rows.")
    ] = 18.0,
    verify_row_ms: Annotated[float, typer.Option(min=0.0, help="Each row of one, on top.")] = 0.03,
    step_ms: Annotated[float, typer.Option(min=1e-3, help="A growth step, rows aside.")] = 2.4,
    step_row_ms: Annotated[float, typer.Option(min=0.0, help="Each row of one, on top.")] = 0.01,
    glue_ms: Annotated[float, typer.Option(min=0.0, help="Drafter, once per commit.")] = 0.3,
    overhead_ms: Annotated[float, typer.Option(min=0.0, help="Verifier, once per round.")] = 0.5,
    delay_ms: Annotated[float, typer.Option(min=0.0, help="Network, one way.")] = 0.2,
    acceptance: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="Rate of the draft's first candidate.")
    ] = 0.8,
    sessions: Annotated[int, typer.Option(min=1, max=512, help="Texts at once.")] = 1,
    drafters: Annotated[int, typer.Option(min=1, max=16, help="Drafters of the verifier.")] = 1,
    tokens: Annotated[int, typer.Option(min=16, help="Tokens of each text.")] = 512,
    vary: Annotated[Vary | None, typer.Option(help="Sweep this instead of one point.")] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Predict the paper's figures.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="File for the figures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="File for a picture.")] = None,
) -> None:
    """Run the service's own core in modelled time and say what it would reach.

    The forward times come from you (`ssd bench engine`, or a published profile), and the
    acceptance from your text. What is assumed is printed with the result.

    Examples:

    ssd simulate --verify-ms 11.3 --step-ms 2.5 --acceptance 0.79 --vary delay

    ssd simulate --paper --json out/paper.json
    """
    console, progress_console = Console(), Console(stderr=True)
    with one_sentence_errors():
        if plot is not None and vary is None and not paper:
            raise ConfigError("--plot draws a sweep or the paper: give --vary or --paper")
        if paper:
            _paper(console, json_file, plot)
            return
        scenario = Scenario(
            costs=Costs(
                verify_s=verify_ms / 1e3,
                verify_row_s=verify_row_ms / 1e3,
                step_s=step_ms / 1e3,
                step_row_s=step_row_ms / 1e3,
                glue_s=glue_ms / 1e3,
                overhead_s=overhead_ms / 1e3,
                delay_s=delay_ms / 1e3,
            ),
            text=SyntheticText(acceptance),
            num_sessions=sessions,
            num_drafters=drafters,
            num_tokens=tokens,
        )
        scenarios = _sweep(scenario, vary)
        with Progress(console=progress_console, transient=True) as progress:
            tracked = progress.track(scenarios, description="simulating")
            points = [_point(label, each) for label, each in tracked]
        console.print(_table(points, vary))
        console.print("assumed: greedy texts of equal length, all there from the start")
        if json_file is not None:
            _write(json_file, {"points": [_point_json(point) for point in points]})
        if plot is not None:
            _draw(points, vary, plot)


def _sweep(scenario: Scenario, vary: Vary | None) -> list[tuple[str, Scenario]]:
    match vary:
        case Vary.SESSIONS:
            return [(str(n), replace(scenario, num_sessions=n)) for n in _SESSIONS]
        case Vary.DRAFTERS:
            return [(str(n), replace(scenario, num_drafters=n)) for n in _DRAFTERS]
        case Vary.DELAY:
            costs = scenario.costs
            delays = [(f"{ms:g} ms", replace(costs, delay_s=ms / 1e3)) for ms in _DELAYS_MS]
            return [(label, replace(scenario, costs=each)) for label, each in delays]
        case None:
            return [("as given", scenario)]


def _point(label: str, scenario: Scenario) -> _Point:
    return _Point(label, {mode: run(replace(scenario, mode=mode)) for mode in _MODES})


def _table(points: Sequence[_Point], vary: Vary | None) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column(vary.value if vary else "")
    for heading in ("ar", "sd", "ssd", "ssd/sd", "ssd/ar", "tokens per round", "hit rate", "busy"):
        table.add_column(heading, justify="right")
    for point in points:
        ssd = point.outcomes[Mode.SSD]
        table.add_row(
            point.label,
            *(f"{point.outcomes[mode].tokens_per_s:.1f}" for mode in _MODES),
            f"{point.times(Mode.SSD, Mode.SD):.2f}",
            f"{point.times(Mode.SSD, Mode.AR):.2f}",
            f"{ssd.tokens_per_round:.2f}",
            "-" if ssd.hit_rate is None else f"{ssd.hit_rate:.2f}",
            f"{ssd.verifier_busy:.2f}",
        )
    return table


def _point_json(point: _Point) -> dict[str, Any]:
    modes = {mode.value: asdict(outcome) for mode, outcome in point.outcomes.items()}
    return {"point": point.label, "modes": modes}


def _paper(console: Console, json_file: Path | None, plot: Path | None) -> None:
    with console.status("simulating the paper's pairs"):
        predictions = predict_paper()
    console.print(_paper_table(predictions))
    console.print("fitted: the acceptance of each pair, to its plain and speculative decoding")
    for assumption in COMMON_ASSUMPTIONS:
        console.print(f"assumed: {assumption}")
    for pair in PAIRS:
        for assumption in pair.assumed:
            console.print(f"assumed for {pair.name}: {assumption}")
    if json_file is not None:
        _write(json_file, {"paper": [asdict(each) for each in predictions]})
    if plot is not None:
        _draw_paper(predictions, plot)


def _paper_table(predictions: Sequence[Prediction]) -> Table:
    table = Table(box=None, header_style="bold")
    for heading in ("pair", "mode", "published", "simulated", "off by", "lookahead"):
        table.add_column(heading)
    for each in predictions:
        table.add_row(
            each.pair,
            each.mode,
            f"{each.published:.1f}",
            f"{each.simulated:.1f}",
            "fitted" if each.is_fitted else f"{each.error:+.1%}",
            "-" if each.lookahead is None else str(each.lookahead),
        )
    return table


def _draw_paper(predictions: Sequence[Prediction], path: Path) -> None:
    """Published and simulated speeds side by side; what was fitted is pale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(predictions))
    published = [each.published for each in predictions]
    simulated = [each.simulated for each in predictions]
    axes.bar([place - 0.2 for place in places], published, width=0.4, color="#9aa0a6")
    bars = axes.bar([place + 0.2 for place in places], simulated, width=0.4, color="#2f6fb0")
    for bar, each in zip(bars, predictions, strict=True):
        bar.set_alpha(0.35 if each.is_fitted else 1.0)
    axes.bar_label(bars, [f"{each.error:+.0%}" for each in predictions], fontsize=8)
    axes.set_xticks(list(places), [_label(each) for each in predictions], fontsize=8)
    axes.set_ylabel("tokens/s; grey: published, blue: simulated (pale: fitted)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _label(prediction: Prediction) -> str:
    return prediction.pair.replace(" / ", "\n/ ") + f"\n{prediction.mode}"


def _draw(points: Sequence[_Point], vary: Vary | None, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for mode in (Mode.SD, Mode.SSD):
        ratios = [point.times(mode, Mode.AR) for point in points]
        axes.plot([point.label for point in points], ratios, marker="o", label=mode.value)
    axes.axhline(1.0, color="grey", linewidth=1)
    axes.set_xlabel(vary.value if vary else "")
    axes.set_ylabel("times plain decoding")
    axes.set_ylim(bottom=0.0)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
