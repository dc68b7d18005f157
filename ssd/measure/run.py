"""Ask a service for every prompt, at every temperature, in every way; one request at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ssd.client import Client
from ssd.core.mode import Mode
from ssd.measure.measurement import Measurement, Way
from ssd.measure.prompt_file import OwnPrompt
from ssd.report import Request, RunRecord, run

PLAIN = Way(Mode.AR)
_NUM_WARM_UP_TOKENS = 24


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run; plain decoding is always among the ways."""

    prompts: Sequence[OwnPrompt]
    temperatures: Sequence[float]
    ways: Sequence[Way]
    seed: int
    max_tokens: int

    @property
    def all_ways(self) -> tuple[Way, ...]:
        return (PLAIN, *self.ways)

    @property
    def num_requests(self) -> int:
        return len(self.all_ways) * (1 + len(self.temperatures) * len(self.prompts))

    def requests(self, way: Way, temperature: float) -> Iterator[Request]:
        for own in self.prompts:
            yield Request(
                way.mode,
                temperature,
                self.seed,
                own.name,
                own.prompt,
                self.max_tokens,
                speculation=way.limits,
            )


def run_plan(
    client: Client, plan: Plan, *, done: Callable[[], None] = lambda: None
) -> list[Measurement]:
    """Run it all, after a short text in each way; `done` is called after every request.

    The ways take turns on each prompt, so that a machine that changes its pace changes it for all.
    """
    for way in plan.all_ways:
        first = next(plan.requests(way, plan.temperatures[-1]))
        run(client, replace(first, max_tokens=min(plan.max_tokens, _NUM_WARM_UP_TOKENS)))
        done()
    measured = []
    for temperature in plan.temperatures:
        texts: dict[int, list[RunRecord]] = {index: [] for index in range(len(plan.all_ways))}
        rows = [list(plan.requests(way, temperature)) for way in plan.all_ways]
        for together in zip(*rows, strict=True):
            for index, request in enumerate(together):
                texts[index].append(run(client, request))
                done()
        measured += [
            Measurement(way, temperature, tuple(texts[index]))
            for index, way in enumerate(plan.all_ways)
        ]
    return measured
