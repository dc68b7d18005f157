"""`ssd bench`: how fast the service is on this machine, and what its parts cost."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from ssd.cli.options import INTERRUPTED_EXIT_CODE, Assignments, one_sentence_errors
from ssd.core.errors import ConfigError
from ssd.core.fan_out import GrowthOrder
from ssd.core.rule import Rule
from ssd.service_bench.contender import ALL_MODES
from ssd.service_bench.prompts import Workload
from ssd.service_bench.race import Plan
from ssd.service_bench.regime import Regime, Widths

_TABLE_WIDTH = 110

app = typer.Typer(help="Measure the service, or its parts, on this machine.")


@app.callback(invoke_without_command=True)
def service(
    context: typer.Context,
    pair: Annotated[
        str, typer.Option("--pair", help="Embedded pair, or a target whose draft --set names.")
    ] = "pystd",
    regime: Annotated[
        Regime, typer.Option(help="Cost of a draft step: 0.13 of a verification, 0.04, or as is.")
    ] = Regime.PAPER,
    workload: Annotated[
        Workload | None, typer.Option(help="What is asked for; default: code, of tales chat.")
    ] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(help="Run this: ar, sd, sd_tree, ssd, ar2, sd2; default all."),
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0, max=2.0)] = 0.0,
    rule: Annotated[Rule, typer.Option(help="coupled or ratio.")] = Rule.COUPLED,
    sessions: Annotated[
        list[int] | None,
        typer.Option(min=1, max=128, help="Texts at once; may be given several times."),
    ] = None,
    delay_ms: Annotated[
        list[float] | None,
        typer.Option(min=0.0, help="Run ssd with this delay too, between verifier and drafter."),
    ] = None,
    growth: Annotated[
        list[GrowthOrder] | None, typer.Option(help="Run ssd with this order of growth too.")
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Run ssd with this setting too."),
    ] = None,
    sd_depth: Annotated[
        int | None, typer.Option(min=1, max=8, help="Depth of sd; default: its best, searched.")
    ] = None,
    blocks: Annotated[int, typer.Option(min=1, help="Blocks, interleaved.")] = 5,
    prompts: Annotated[int, typer.Option(min=1, help="Prompts of a block.")] = 10,
    tokens: Annotated[int, typer.Option(min=2, help="Tokens of each text, at most.")] = 128,
    limit_s: Annotated[
        float | None, typer.Option(min=0.0, help="Begin no further block after so many seconds.")
    ] = None,
    sweep_prompts: Annotated[
        int, typer.Option(min=1, help="Prompts that the best depth is searched with.")
    ] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Seed of prompts and texts.")] = 1,
    dtype: Annotated[str, typer.Option(help="Number format of the target.")] = "fp32",
    widths: Annotated[
        str | None, typer.Option(help="Pad to TARGET,DRAFT neurons, as an earlier run printed.")
    ] = None,
    gpu_hour_price: Annotated[
        float | None, typer.Option(min=0.0, help="Price of a device for an hour.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="File to write the figures to as well.")
    ] = None,
    plots: Annotated[Path | None, typer.Option(help="Folder for pictures.")] = None,
    assignments: Assignments = None,
) -> None:
    """Run the service in its modes on the same prompts, in turns, and compare speed and text.

    Starts Ray, coordinator, verifier and drafter on this machine, and ends them. Without --mode all
    run: ar and sd, sd_tree (trees as in ssd, drafted while the verifier waits), ssd, and with both
    cores for the target ar2 and sd2. Exit status 1 when a text differs from plain decoding.

    Example: ssd bench --regime paper --blocks 2 --prompts 3 --json out/bench.json
    """
    if context.invoked_subcommand is not None:
        return
    console = Console()
    console = Console(width=max(console.width, _TABLE_WIDTH))
    with one_sentence_errors():
        _make_room(json_file)
        from ssd.cli.bench_service import Order, leave, run_bench, show

        default = Workload.CHAT if pair == "tales" else Workload.CODE
        order = Order(
            pair=pair,
            regime=regime,
            workload=workload or default,
            dtype=dtype,
            modes=tuple(mode or ALL_MODES),
            delays_ms=tuple(delay_ms or ()),
            variants=(*(f"drafter.growth={each}" for each in growth or ()), *(variant or ())),
            depth=sd_depth,
            plan=Plan(
                max_tokens=tokens,
                temperature=temperature,
                seed=seed,
                rule=rule,
                num_blocks=blocks,
                num_prompts=prompts,
                sessions=tuple(sessions or (1,)),
                num_sweep_prompts=sweep_prompts,
                limit_s=limit_s,
            ),
            widths=_widths(widths),
            gpu_hour_price=gpu_hour_price,
            assignments=tuple(assignments or ()),
        )
        try:
            report = run_bench(order, console)
        except KeyboardInterrupt:
            console.print("stopped")
            raise typer.Exit(INTERRUPTED_EXIT_CODE) from None
        show(report, console)
        leave(report, json_file, plots)
    if not report.is_identical:
        raise typer.Exit(1)


def _widths(text: str | None) -> Widths | None:
    """Raises ConfigError where it reads otherwise."""
    try:
        return None if text is None else Widths.parse(text)
    except ValueError as error:
        raise ConfigError(f"--widths reads TARGET,DRAFT, such as 6144,1024, not {text}") from error


@app.command()
def engine(
    json_file: Annotated[
        Path | None, typer.Option("--json", help="File to write the figures to as well.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Measure this alone; may be given several times.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of a forward.")] = 1,
) -> None:
    """Forwards, batches and draws against what they could cost at best; ratios of one run.

    Runs on one CPU core unless --threads says more. Exit status 1 when a figure misses its limit.

    Example: ssd bench engine --json out/engine.json
    """
    console = Console(stderr=False)
    with one_sentence_errors():
        _make_room(json_file)
        from ssd import bench

        chosen = [each for each in bench.ENGINE_MEASUREMENTS if not only or each.name in only]
        unknown = set(only or ()) - {each.name for each in chosen}
        if unknown:
            known = ", ".join(each.name for each in bench.ENGINE_MEASUREMENTS)
            raise ConfigError(f"there is no measurement {min(unknown)}; there are {known}")
        bench.use_threads(threads)
        figures: list[bench.Figure] = []
        with Progress(console=Console(stderr=True), transient=True) as progress:
            for each in progress.track(chosen, description="measuring"):
                progress.console.print(f"{each.name}: {each.summary}")
                figures += each.run()
        console.print(bench.figures_table(figures))
        if json_file is not None:
            text = json.dumps(bench.report_json(figures), indent=2) + "\n"
            json_file.write_text(text, encoding="utf-8")
    if not all(figure.is_met for figure in figures):
        raise typer.Exit(1)


def _make_room(file: Path | None) -> None:
    """Find out first what would go wrong last.

    Raises:
        ConfigError: the file's folder can't be made.
    """
    if file is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {file.parent}: {error.strerror}") from error
