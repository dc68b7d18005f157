"""`ssd demo`: the three modes side by side on this machine."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ssd.cli.options import (
    INTERRUPTED_EXIT_CODE,
    Assignments,
    ConfigFile,
    configuration,
    one_sentence_errors,
)
from ssd.cli.run_dir import run_dir
from ssd.cli.serve import is_serving
from ssd.client import Client
from ssd.config import ModelsSection, SsdConfig, resolve_draft
from ssd.config.sections import EMBEDDED_PAIR
from ssd.core.errors import ConfigError
from ssd.report import DemoReport, Plan, Served, results_table, run_side_by_side
from ssd.report.prompts import PLAIN, TALES

_READY_S = 60.0
_TEMPERATURES = (0.0, 1.0)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and the picture.")] = Path(
        "out/demo"
    ),
    target: Annotated[
        str, typer.Option(help="Target: embedded pair, folder, .gguf file or hub name.")
    ] = EMBEDDED_PAIR,
    draft: Annotated[
        str | None,
        typer.Option(help="Draft, named likewise; default: the embedded target's own."),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Number format of the target: fp32, bf16, fp16 or fp64.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=2, help="Tokens of each text, at most.")] = 96,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the texts at temperature 1.")] = 1,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report; everything else to standard error.")
    ] = False,
    config: ConfigFile = None,
    assignments: Assignments = None,
) -> None:
    """Run six texts in the modes ssd, sd and ar; compare their speed and, id by id, the texts.

    Serves on a free port of this machine and ends what it started. Leaves report.json and
    timeline.png. Exit status 1 when a text differs from plain decoding.

    Example: ssd demo
    """
    console = Console(stderr=as_json)
    flags = {
        "models.target": target,
        "models.draft": draft,
        "models.target_dtype": dtype,
        "coordinator.port": 0,
    }
    # What the services log is not what a demo shows, and at its end they report lost peers.
    quiet = ["logging.level=error", *(assignments or [])]
    prompts = TALES if target == EMBEDDED_PAIR else PLAIN
    plan = Plan(prompts, _TEMPERATURES, seed=seed, max_tokens=max_tokens)
    with one_sentence_errors():
        try:
            _make_ready(out)
            report = _run(configuration(config, quiet, flags), plan, console)
            _show(report, console)
            _leave(report, out, console)
        except KeyboardInterrupt:
            console.print("stopped")
            raise typer.Exit(INTERRUPTED_EXIT_CODE) from None
    if as_json:
        print(json.dumps(report.as_json()))
    if not report.is_identical:
        raise typer.Exit(1)


def _make_ready(out: Path) -> None:
    """Find out first what would go wrong last.

    Raises:
        ConfigError: nothing can be drawn, or written.
    """
    if find_spec("matplotlib") is None:
        raise ConfigError("the picture needs matplotlib: pip install 'ssd-service[report]'")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {out}: {error.strerror}") from error


def _run(settings: SsdConfig, plan: Plan, console: Console) -> DemoReport:
    # Ray is needed here and by few other commands; loading it takes seconds.
    from ssd.cluster.local_service import local_service

    with local_service(settings, run_dir=run_dir(), report=console.print) as service:
        service.wait_until(
            lambda: is_serving(service.address, num_workers=len(service.workers)),
            deadline_s=_READY_S,
        )
        with Client(service.address) as client:
            served = _served(settings, client)
            console.print(f"{served.target} in {served.dtype}: {served.exactness}\n")
            return DemoReport(served, run_side_by_side(client, plan, console))


def _served(settings: SsdConfig, client: Client) -> Served:
    info = client.model_info()
    return Served(
        target=_short(settings.models.target),
        draft=_draft_name(settings.models),
        dtype=info.dtype,
        draft_dtype=settings.models.draft_dtype,
        fingerprint=info.fingerprint,
        exactness=info.exactness,
    )


def _draft_name(models: ModelsSection) -> str:
    if models.draft_layers is not None:
        return f"first {models.draft_layers} layers of the target"
    if resolve_draft(models) is None:
        return "none"
    return _short(models.draft or models.target)


def _short(model: str) -> str:
    """A pair's or a hub's name as it is; of a path the last two parts."""
    return "/".join(Path(model).parts[-2:])


def _show(report: DemoReport, console: Console) -> None:
    console.print()
    console.print(results_table(report.comparison))
    console.print()
    if report.came_in_bursts:
        console.print(
            "[yellow]The machine is busy: texts came in bursts, so tokens/s and the times of ar are"
            " not to be trusted; verifier_tokens_per_s in the report is steadier.[/yellow]"
        )
    for difference in report.comparison.differences:
        console.print(f"[red]not the text of plain decoding:[/red] {difference}")


def _leave(report: DemoReport, out: Path, console: Console) -> None:
    """Write the report and the picture."""
    from ssd.report.demo_picture import draw_demo

    written, picture = out / "report.json", out / "timeline.png"
    written.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")
    draw_demo(report, picture)
    for words in (f"report:  {written}", f"picture: {picture}"):
        console.print(words, markup=False, highlight=False, soft_wrap=True)
