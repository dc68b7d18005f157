"""Contenders in turns on the same prompts, so that a machine whose speed drifts drifts for all.

In a block every contender runs the same new prompts, wave by wave, one contender after another; the
next block begins with another one. Not finer than that, because a verifier's price is what it
earned lately, and a mode should meet its own. No prompt comes in two blocks.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from ssd.client import AsyncClient
from ssd.core.rule import Rule
from ssd.service_bench.block import Block, Run, Wave
from ssd.service_bench.contender import Contender, Setup

_WARM_UP_TOKENS = 48


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of what; a wave is as many prompts as there are sessions."""

    max_tokens: int = 128
    temperature: float = 0.0
    seed: int = 1
    rule: Rule = Rule.COUPLED
    num_blocks: int = 5
    num_prompts: int = 10
    sessions: tuple[int, ...] = (1,)
    sweep_depths: tuple[int, ...] = tuple(range(1, 9))
    num_sweep_prompts: int = 4
    limit_s: float | None = None
    """Seconds from the start of the measured blocks after which no further block begins."""

    def waves_of(self, sessions: int) -> int:
        """Waves of a block."""
        return max(-(-self.num_prompts // sessions), 1)

    @property
    def num_prompts_in_all(self) -> int:
        blocks = sum(self.num_blocks * self.waves_of(each) * each for each in self.sessions)
        return blocks + self.num_sweep_prompts + 1

    def num_runs(self, contenders: Sequence[Contender]) -> int:
        """Answers that will be asked for, for a progress bar."""
        swept = sum(each.wants_depth for each in contenders)
        blocks = sum(self.num_blocks * self.waves_of(each) * each for each in self.sessions)
        sweep = swept * len(self.sweep_depths) * self.num_sweep_prompts
        return len(contenders) * (1 + blocks) + sweep


@dataclass(frozen=True, slots=True)
class Lane:
    """A contender with so many sessions, and its blocks in order."""

    contender: Contender
    sessions: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """All lanes, and tokens per second by depth of those whose depth was searched for."""

    lanes: tuple[Lane, ...]
    sweeps: Mapping[str, Mapping[int, float]]


class Race:
    """Runs a plan against services that stand; `done` is called after every answer."""

    def __init__(
        self,
        clients: Mapping[Setup, AsyncClient],
        plan: Plan,
        prompts: Sequence[str],
        *,
        done: Callable[[str], None],
    ) -> None:
        self._clients = clients
        self._plan = plan
        self._prompts = list(enumerate(prompts))
        self._done = done
        self._began_s = 0.0

    async def run(self, contenders: Sequence[Contender]) -> Outcome:
        warm_up = self._take(1)
        for each in contenders:
            await self._wave(each, warm_up, max_tokens=min(_WARM_UP_TOKENS, self._plan.max_tokens))
        searched = self._take(self._plan.num_sweep_prompts)
        sweeps: dict[str, dict[int, float]] = {}
        chosen = []
        for each in contenders:
            if each.wants_depth:
                speeds = sweeps[each.name] = await self._sweep(each, searched)
                chosen.append(replace(each, depth=max(speeds, key=speeds.__getitem__)))
            else:
                chosen.append(each)
        self._began_s = time.perf_counter()
        lanes: list[Lane] = []
        for sessions in self._plan.sessions:
            lanes += await self._lanes(chosen, sessions)
        return Outcome(tuple(lanes), sweeps)

    async def _sweep(
        self, contender: Contender, prompts: Sequence[tuple[int, str]]
    ) -> dict[int, float]:
        """Tokens per second by depth, all depths on the same prompts, in turns; medians."""
        waves: dict[int, list[Wave]] = {depth: [] for depth in self._plan.sweep_depths}
        for prompt in prompts:
            for depth, found in waves.items():
                found.append(await self._wave(replace(contender, depth=depth), [prompt]))
        return {
            depth: median(Block((wave,)).tokens_per_s for wave in found)
            for depth, found in waves.items()
        }

    @property
    def _is_late(self) -> bool:
        limit_s = self._plan.limit_s
        return limit_s is not None and time.perf_counter() - self._began_s > limit_s

    async def _lanes(self, contenders: Sequence[Contender], sessions: int) -> list[Lane]:
        blocks: dict[str, list[Block]] = {each.name: [] for each in contenders}
        for turn in range(self._plan.num_blocks):
            if turn > 0 and self._is_late:
                break  # every contender has the blocks that there are
            waves = [self._take(sessions) for _ in range(self._plan.waves_of(sessions))]
            for each in _from(contenders, turn):
                ran = [await self._wave(each, prompts) for prompts in waves]
                blocks[each.name].append(Block(tuple(ran)))
        return [Lane(each, sessions, tuple(blocks[each.name])) for each in contenders]

    def _take(self, count: int) -> list[tuple[int, str]]:
        taken, self._prompts = self._prompts[:count], self._prompts[count:]
        assert len(taken) == count, "the plan counts its prompts"
        return taken

    async def _wave(
        self,
        contender: Contender,
        prompts: Sequence[tuple[int, str]],
        *,
        max_tokens: int | None = None,
    ) -> Wave:
        tokens = max_tokens or self._plan.max_tokens
        runs = [self._answer(contender, number, text, tokens) for number, text in prompts]
        return Wave(tuple(await asyncio.gather(*runs)))

    async def _answer(self, contender: Contender, number: int, prompt: str, max_tokens: int) -> Run:
        plan = self._plan
        options = contender.options(
            max_tokens=max_tokens,
            temperature=plan.temperature,
            seed=plan.seed + number,
            rule=plan.rule,
        )
        token_ids: list[int] = []
        arrivals: list[float] = []
        async with self._clients[contender.setup].generate(prompt, options) as generation:
            async for piece in generation:
                if piece.token_ids:
                    arrivals.append(time.perf_counter())
                    token_ids.extend(piece.token_ids)
            completion = generation.completion
        self._done(contender.name)
        return Run(
            prompt,
            tuple(token_ids),
            arrivals[0] if arrivals else 0.0,
            arrivals[-1] if arrivals else 0.0,
            completion.rounds,
            completion.growth,
        )


def _from(contenders: Sequence[Contender], turn: int) -> list[Contender]:
    """All of them, another one first each turn: the first to run a prompt pays for its prefill."""
    start = turn % len(contenders)
    return [*contenders[start:], *contenders[:start]]


def median_ratio(above: Lane, below: Lane) -> float:
    """Of tokens per second, block by block."""
    pairs = zip(above.blocks, below.blocks, strict=True)
    return median(
        one.tokens_per_s / other.tokens_per_s if other.tokens_per_s > 0 else 0.0
        for one, other in pairs
    )
