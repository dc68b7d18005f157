"""The same prompts in every mode: those in mode `ssd` to look at, the others behind a bar."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ssd.client import Client
from ssd.core.mode import Mode
from ssd.report.comparison import Comparison
from ssd.report.live_text import live_text
from ssd.report.measure import run
from ssd.report.prompts import Prompt
from ssd.report.run_record import Request, RunRecord

_NUM_WARM_UP_TOKENS = 24
MODES = (Mode.SSD, Mode.SD, Mode.AR)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run; every prompt at every temperature."""

    prompts: Sequence[Prompt]
    temperatures: Sequence[float]
    seed: int
    max_tokens: int

    def requests(self, mode: Mode) -> Iterator[tuple[Prompt, Request]]:
        for temperature in self.temperatures:
            for prompt in self.prompts:
                yield prompt, self._request(mode, temperature, prompt)

    def warm_up(self, mode: Mode) -> Request:
        first = self._request(mode, self.temperatures[-1], self.prompts[0])
        return replace(first, max_tokens=min(self.max_tokens, _NUM_WARM_UP_TOKENS))

    def _request(self, mode: Mode, temperature: float, prompt: Prompt) -> Request:
        return Request(mode, temperature, self.seed, prompt.name, prompt.text, self.max_tokens)


def run_side_by_side(client: Client, plan: Plan, console: Console) -> Comparison:
    """Run the whole plan, one request at a time, after a warm-up in each mode."""
    for mode in MODES:
        run(client, plan.warm_up(mode))
    runs = _run_streamed(client, plan, console)
    return Comparison((*runs, *_run_behind_bar(client, plan, console)))


def _run_streamed(client: Client, plan: Plan, console: Console) -> list[RunRecord]:
    records = []
    requests = list(plan.requests(Mode.SSD))
    for number, (prompt, request) in enumerate(requests, start=1):
        title = f"{number} of {len(requests)} · {prompt.name} · temperature {request.temperature:g}"
        with live_text(console, title=title, prompt=prompt.shown) as frame:
            record = run(client, request, show=frame.add)
            frame.finish(_footer(record))
        records.append(record)
    return records


def _footer(record: RunRecord) -> str:
    figures = record.figures
    return (
        f"{record.tokens_per_s:.0f} tokens/s · {figures.tokens_per_round:.2f} tokens per round"
        f" · hit rate {figures.hit_rate:.2f}"
    )


def _run_behind_bar(client: Client, plan: Plan, console: Console) -> list[RunRecord]:
    requests = [request for mode in (Mode.SD, Mode.AR) for _, request in plan.requests(mode)]
    records = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("the same in modes sd and ar", total=len(requests))
        for request in requests:
            records.append(run(client, request))
            progress.advance(task)
    return records
