"""`ssd bench` without a further word: the service against itself in its other modes."""

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ssd.cli.options import configuration
from ssd.cli.run_dir import run_dir
from ssd.cli.serve import is_serving
from ssd.client import AsyncClient
from ssd.config import SsdConfig, parse_assignments, resolve_draft, resolve_model
from ssd.core.errors import ConfigError
from ssd.service_bench.contender import CONTENDERS, Contender, Setup, delayed, varied
from ssd.service_bench.prompts import Workload, prompts_of
from ssd.service_bench.race import Outcome, Plan, Race
from ssd.service_bench.regime import Regime, Widths
from ssd.service_bench.results import Conditions, Result, as_json, results_of
from ssd.service_bench.tables import ratio_lines, results_table
from ssd.threads import run_soon

_READY_S = 60.0
_MOST_SD_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Order:
    """What the options ask for."""

    pair: str
    regime: Regime
    workload: Workload
    dtype: str
    modes: tuple[str, ...]
    delays_ms: tuple[float, ...]
    variants: tuple[str, ...]
    depth: int | None
    plan: Plan
    widths: Widths | None
    gpu_hour_price: float | None
    assignments: tuple[str, ...]

    @property
    def contenders(self) -> list[Contender]:
        """Those named, and `ssd` once more for each delay and each variant.

        Raises:
            ConfigError: one of them is unknown.
        """
        unknown = [name for name in self.modes if name not in CONTENDERS]
        if unknown:
            raise ConfigError(f"there is no mode {unknown[0]}; there are {', '.join(CONTENDERS)}")
        chosen = [CONTENDERS[name].to_depth(self.depth) for name in self.modes]
        ssd = CONTENDERS["ssd"]
        chosen += [delayed(ssd, ms) for ms in self.delays_ms]
        settings = [parse_assignments([each]).popitem() for each in self.variants]
        return chosen + [varied(ssd, key, value) for key, value in settings]


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured, and under which conditions."""

    conditions: Conditions
    outcome: Outcome
    results: list[Result]

    @property
    def is_identical(self) -> bool:
        return all(each.identical is not False for each in self.results)


def run_bench(order: Order, console: Console) -> Report:
    """Pad, serve, run, end what was started.

    Raises:
        ConfigError: something in the order cannot be had; nothing is left running.
    """
    contenders = order.contenders
    base = _settings(order, order.pair, None, {})
    target = Path(resolve_model(base.models.target, role="target"))
    draft = Path(resolve_draft(base.models) or target)
    prompts = prompts_of(
        order.workload,
        target=target,
        count=order.plan.num_prompts_in_all,
        seed=order.plan.seed,
    )
    with tempfile.TemporaryDirectory(prefix="ssd-bench-") as folder, ExitStack() as services:
        # It loads torch, which a wrong option should not wait for.
        from ssd.service_bench.padded_pair import PairShop

        core = max(os.sched_getaffinity(0))
        shop = PairShop(target, draft, Path(folder), dtype=order.dtype, core=core)
        if order.widths is not None:
            pair = shop.padded(order.widths)
        elif order.regime.goal is not None:
            pair = shop.padded_to(order.regime.goal, console.print)
        else:
            pair = shop.plain()
        console.print(str(pair))
        addresses = {}
        for setup in dict.fromkeys(each.setup for each in contenders):
            settings = _settings(order, str(pair.target), str(pair.draft), dict(setup.settings))
            addresses[setup] = services.enter_context(_serving(settings, console))
        outcome = _race(addresses, order.plan, prompts, contenders)
        conditions = Conditions(
            pair=order.pair,
            regime=order.regime,
            workload=order.workload.value,
            dtype=order.dtype,
            cost=pair.cost,
            widths=pair.widths,
            plan=order.plan,
            gpu_hour_price=order.gpu_hour_price,
        )
    return Report(conditions, outcome, results_of(outcome, order.plan, dtype=order.dtype))


def show(report: Report, console: Console) -> None:
    console.print(results_table(report.conditions, report.results))
    for name, speeds in report.outcome.sweeps.items():
        words = ", ".join(f"{depth}: {speed:.0f}" for depth, speed in speeds.items())
        console.print(f"{name} by depth, tokens/s: {words}")
    for line in ratio_lines(report.results):
        console.print(line)
    for each in report.results:
        price = report.conditions.gpu_hour_price
        if price is not None:
            cost = each.price_per_million(price)
            console.print(
                f"{each.name}, {each.lane.sessions} sessions: {cost:.2f} a million tokens"
            )


def leave(report: Report, json_file: Path | None, plots: Path | None) -> None:
    """Write what was asked for."""
    if json_file is not None:
        content: Mapping[str, Any] = as_json(report.conditions, report.outcome, report.results)
        json_file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if plots is not None:
        from ssd.service_bench.pictures import draw

        draw(report.conditions, report.results, plots)


def _settings(
    order: Order, target: str, draft: str | None, more: Mapping[str, object]
) -> SsdConfig:
    sessions = max(order.plan.sessions)
    flags = {
        "models.target": target,
        "models.draft": draft,
        "models.target_dtype": order.dtype,
        "coordinator.port": 0,
        "coordinator.max_sessions": max(sessions, 2),
        "drafter.sd_depth": _MOST_SD_DEPTH,
        **more,
    }
    return configuration(None, ["logging.level=error", *order.assignments], flags)


@contextmanager
def _serving(settings: SsdConfig, console: Console) -> Iterator[str]:
    """The address of a service that takes requests."""
    # Ray is needed here and by few other commands; loading it takes seconds.
    from ssd.cluster.local_service import local_service

    with local_service(settings, run_dir=run_dir(), report=console.print) as service:
        service.wait_until(
            lambda: is_serving(service.address, num_workers=len(service.workers)),
            deadline_s=_READY_S,
        )
        yield service.address


def _race(
    addresses: Mapping[Setup, str],
    plan: Plan,
    prompts: Sequence[str],
    contenders: Sequence[Contender],
) -> Outcome:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=plan.num_runs(contenders))

        def done(name: str) -> None:
            progress.update(task, advance=1, description=name)

        async def run() -> Outcome:
            async with AsyncExitStack() as stack:
                clients = {
                    setup: await stack.enter_async_context(AsyncClient(address))
                    for setup, address in addresses.items()
                }
                return await Race(clients, plan, prompts, done=done).run(contenders)

        run_soon()  # clients share the cores here, and would see tokens late
        return asyncio.run(run())
