"""All engines on the same prompts in turns, so that a machine whose speed drifts drifts for all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.peers.engine import Answer, Drafting, Engine, Task
from benchmarks.peers.foreign_load import ForeignLoad

_WARM_UP_TOKENS = 32
_TRIES = 2


@dataclass(frozen=True)
class Contestant:
    """An engine in one way of decoding; `searches` says that its best draft is to be found."""

    name: str
    engine: Engine
    drafting: Drafting | None = None
    searches: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of what. An answer during which others took more than `most_foreign` of the cores is
    asked for again, a few times; the least disturbed counts."""

    num_blocks: int = 5
    num_prompts: int = 10
    max_tokens: int = 128
    num_sweep_prompts: int = 2
    most_foreign: float = 0.05

    @property
    def num_prompts_in_all(self) -> int:
        return 1 + self.num_sweep_prompts + self.num_blocks * self.num_prompts


@dataclass(frozen=True, slots=True)
class Run:
    """One answer of one contestant, and the share of the cores that others took meanwhile."""

    contestant: str
    block: int
    prompt: int
    answer: Answer
    foreign: float


@dataclass(frozen=True)
class Outcome:
    """`sweeps`: tokens per second by draft, of the contestants whose draft was searched for."""

    contestants: tuple[Contestant, ...]
    runs: tuple[Run, ...]
    sweeps: dict[str, dict[str, float]]


def hold(
    contestants: Sequence[Contestant],
    prompts: Sequence[tuple[int, ...]],
    plan: Plan,
    done: Callable[[str], None],
    *,
    load: ForeignLoad,
) -> Outcome:
    """Warm up, find each one's draft, then run the blocks; `done` hears of each step."""
    first, rest = prompts[0], prompts[1:]
    for each in contestants:
        each.engine.generate(Task(first, _WARM_UP_TOKENS, each.drafting))
    load.find_ours()
    sweeps: dict[str, dict[str, float]] = {}
    chosen = []
    for each in contestants:
        if each.searches and each.drafting is None:
            speeds = _sweep(each, rest[: plan.num_sweep_prompts], plan.max_tokens // 2)
            best = max(speeds, key=speeds.__getitem__)
            sweeps[each.name] = {str(drafting): speed for drafting, speed in speeds.items()}
            chosen.append(replace(each, drafting=best))
            tried = ", ".join(f"{drafting}: {speed:.0f}" for drafting, speed in speeds.items())
            done(f"{each.name}, tokens/s by draft: {tried}")
        else:
            chosen.append(each)
    runs = _blocks(chosen, rest[plan.num_sweep_prompts :], plan, done, load=load)
    return Outcome(tuple(chosen), tuple(runs), sweeps)


def _sweep(
    contestant: Contestant, prompts: Sequence[tuple[int, ...]], max_tokens: int
) -> dict[Drafting, float]:
    """Tokens per second by draft, all drafts in turns; each is warmed up first."""
    engine = contestant.engine
    answers: dict[Drafting, list[Answer]] = {drafting: [] for drafting in engine.choices}
    for drafting in answers:
        engine.generate(Task(prompts[0], _WARM_UP_TOKENS, drafting))
    for prompt in prompts:
        for drafting, found in answers.items():
            found.append(engine.generate(Task(prompt, max_tokens, drafting)))
    return {drafting: speed_of(found) for drafting, found in answers.items()}


def _blocks(
    contestants: Sequence[Contestant],
    prompts: Sequence[tuple[int, ...]],
    plan: Plan,
    done: Callable[[str], None],
    *,
    load: ForeignLoad,
) -> list[Run]:
    """Every prompt by everybody, another one first each time; what is interrupted ends early."""
    runs: list[Run] = []
    planned = prompts[: plan.num_blocks * plan.num_prompts]
    try:
        for number, prompt in enumerate(planned):
            start = number % len(contestants)
            block = number // plan.num_prompts
            latest = []
            for each in [*contestants[start:], *contestants[:start]]:
                task = Task(prompt, plan.max_tokens, each.drafting)
                answer, foreign = _undisturbed(each.engine, task, plan, load)
                latest.append(Run(each.name, block, number, answer, foreign))
            runs += latest
            speeds = ", ".join(_speed_words(run) for run in latest)
            done(f"prompt {number + 1} of {len(planned)}: {speeds}")
    except KeyboardInterrupt:
        if not runs:
            raise
        done(f"stopped after {len(runs) // len(contestants)} prompts")
    return runs


def _undisturbed(engine: Engine, task: Task, plan: Plan, load: ForeignLoad) -> tuple[Answer, float]:
    """The least disturbed of a few answers, and by how much it was."""
    tries: list[tuple[float, Answer]] = []
    while len(tries) < _TRIES:
        answers: list[Answer] = []
        foreign = load.share_during(lambda: answers.append(engine.generate(task)))  # noqa: B023
        tries.append((foreign, answers[0]))
        if foreign <= plan.most_foreign:
            break
    foreign, answer = min(tries, key=lambda each: each[0])
    return answer, foreign


def _speed_words(run: Run) -> str:
    return f"{run.contestant} {speed_of([run.answer]):.0f} ({run.foreign:.0%} foreign)"


def speed_of(answers: Sequence[Answer]) -> float:
    """Tokens per second of decoding, prompts not counted."""
    seconds = sum(each.decode_s for each in answers)
    return sum(each.num_decoded for each in answers) / seconds if seconds else 0.0


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second of a contestant: the median of its blocks, the least, the most; of whole
    requests, prompt included; and of the answers that nobody disturbed, None without any."""

    median: float
    least: float
    most: float
    of_requests: float
    undisturbed: float | None


def speed_by_blocks(runs: Sequence[Run], contestant: str, *, most_foreign: float) -> Speed:
    """Over the runs of one contestant."""
    mine = [run for run in runs if run.contestant == contestant]
    speeds = [
        speed_of([run.answer for run in mine if run.block == block])
        for block in sorted({run.block for run in mine})
    ]
    quiet = [run.answer for run in mine if run.foreign <= most_foreign]
    total_s = sum(run.answer.total_s for run in mine)
    return Speed(
        median=median(speeds),
        least=min(speeds),
        most=max(speeds),
        of_requests=sum(len(run.answer.token_ids) for run in mine) / total_s,
        undisturbed=speed_of(quiet) if quiet else None,
    )


def median_ratio(
    runs: Sequence[Run], above: str, below: str, *, most_foreign: float = 1.0
) -> float | None:
    """Of two contestants' tokens per second, prompt by prompt; None where nothing is left.

    Prompts during which either was disturbed by more than `most_foreign` do not count.
    """
    by_prompt: dict[int, dict[str, Run]] = {}
    for run in runs:
        by_prompt.setdefault(run.prompt, {})[run.contestant] = run
    pairs = [(found[above], found[below]) for found in by_prompt.values()]
    ratios = [
        speed_of([one.answer]) / speed_of([other.answer])
        for one, other in pairs
        if max(one.foreign, other.foreign) <= most_foreign
    ]
    return median(ratios) if ratios else None
