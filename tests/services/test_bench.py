"""Races between modes of real services in this process, over real connections."""

from collections import Counter

import pytest

from ssd.client import AsyncClient
from ssd.core.mode import Mode
from ssd.engine.loading import LoadedModel
from ssd.service_bench.contender import CONTENDERS, Contender, Setup
from ssd.service_bench.race import Plan, Race
from ssd.service_bench.results import results_of
from tests.services.cluster import Cluster

PLAN = Plan(
    max_tokens=12,
    temperature=1.0,
    num_blocks=2,
    num_prompts=3,
    sessions=(1, 2),
    sweep_depths=(1, 3),
    num_sweep_prompts=1,
)
MODES = [CONTENDERS[name] for name in ("ar", "sd", "ssd")]


async def test_modes_say_the_same_and_every_prompt_is_asked_once_by_each(
    cluster: Cluster,
    target: LoadedModel,
    draft: LoadedModel,
) -> None:
    await cluster.pair(target, draft)
    asked = Counter[str]()
    prompts = [f"prompt number {index}" for index in range(PLAN.num_prompts_in_all)]
    async with AsyncClient(cluster.address) as client:
        race = Race({Setup(): client}, PLAN, prompts, done=lambda name: asked.update([name]))
        outcome = await race.run(MODES)
    results = results_of(outcome, PLAN, dtype="fp32")
    assert all(each.identical for each in results)
    assert sum(asked.values()) == PLAN.num_runs(MODES)
    assert set(outcome.sweeps) == {"sd"}
    assert set(outcome.sweeps["sd"]) == {1, 3}
    lanes = [(lane.contender.name, lane.sessions) for lane in outcome.lanes]
    assert lanes == [(name, sessions) for sessions in (1, 2) for name in ("ar", "sd", "ssd")]
    for lane in outcome.lanes:
        texts = [run.prompt for block in lane.blocks for run in block.runs]
        assert len(texts) == len(set(texts)) == 2 * (3 if lane.sessions == 1 else 4)
    modes = {each.lane.contender.mode: each for each in results}
    assert modes[Mode.AR].figures.tokens_per_round == 1.0
    assert modes[Mode.SD].figures.tokens_per_round > 1.0


async def test_a_depth_bounds_what_sd_verifies(
    cluster: Cluster,
    target: LoadedModel,
    draft: LoadedModel,
) -> None:
    await cluster.pair(target, draft)
    plan = Plan(max_tokens=16, num_blocks=1, num_prompts=1, num_sweep_prompts=0)
    contenders = [Contender(f"sd{depth}", Mode.SD, depth=depth) for depth in (1, 3)]
    async with AsyncClient(cluster.address) as client:
        outcome = await Race({Setup(): client}, plan, list("ab"), done=lambda name: None).run(
            contenders
        )
    depths = [
        max(each.tree_depth for run in lane.blocks[0].runs for each in run.rounds)
        for lane in outcome.lanes
    ]
    assert depths == [1, 3]


@pytest.mark.parametrize(("limit_s", "num_blocks"), [(0.0, 1), (60.0, 3)])
async def test_no_block_begins_after_the_limit_and_all_modes_have_the_same(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel, limit_s: float, num_blocks: int
) -> None:
    await cluster.pair(target, draft)
    plan = Plan(max_tokens=4, num_blocks=3, num_prompts=1, num_sweep_prompts=0, limit_s=limit_s)
    prompts = [f"prompt {index}" for index in range(plan.num_prompts_in_all)]
    contenders = [CONTENDERS["ar"], CONTENDERS["ssd"]]
    async with AsyncClient(cluster.address) as client:
        race = Race({Setup(): client}, plan, prompts, done=lambda name: None)
        outcome = await race.run(contenders)
    assert [len(lane.blocks) for lane in outcome.lanes] == [num_blocks] * 2
