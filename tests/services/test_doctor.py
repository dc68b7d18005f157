"""What `ssd doctor` finds in a running service."""

import asyncio

from ssd.client import Client
from ssd.doctor import Check, Health, service_checks
from ssd.engine.loading import LoadedModel
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table
from tests.services.cluster import Cluster, until


async def checks_of(cluster: Cluster) -> dict[str, Check]:
    def look() -> list[Check]:
        with Client(cluster.address) as client:
            return list(service_checks(client, is_expected=True))

    return {each.name: each for each in await asyncio.to_thread(look)}


async def test_a_whole_service_is_well(
    cluster: Cluster, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    await cluster.pair(table_target, table_draft)

    async def has_clock() -> bool:
        return bool((await cluster.worker_status("verifier-0")).round_trip_ns)

    await until(has_clock)
    checks = await checks_of(cluster)
    assert all(each.health is not Health.FAIL for each in checks.values())
    assert checks.keys() >= {"coordinator", "clock", "verifier-0", "drafter-0", "vocabularies"}
    assert "round trip" in checks["verifier-0"].found
    offset_ms = float(checks["clock"].found.partition(" is ")[2].split()[0])
    assert abs(offset_ms) < 50, "one machine has one clock"


async def test_a_service_without_workers_fails_with_advice(cluster: Cluster) -> None:
    await cluster.coordinate()
    checks = await checks_of(cluster)
    assert checks["verifiers"].health is Health.FAIL
    assert checks["drafters"].health is Health.WARN


async def test_a_drafter_that_is_not_used_is_found(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    await cluster.coordinate()
    await cluster.draft(load_table(agreeing(script)), is_used=False)
    assert "no verifier is registered" in (await checks_of(cluster))["drafter-0"].found
