"""What the three services tell Prometheus, against what the requests themselves say."""

import asyncio
import json
import statistics
import time

import grpc
import pytest

from scripts.dashboard import DASHBOARD
from ssd.core.errors import ConfigError
from ssd.engine.loading import LoadedModel
from ssd.telemetry.scraping import Scrape, read_page, scrape
from ssd.v1 import registry_pb2
from tests.services.cluster import Cluster, refusal_of, until
from tests.telemetry.test_backends import METRIC, PROMETHEUS

PROMPT = [1, 2, 3, 4, 5]


async def scrape_worker(cluster: Cluster, name: str) -> Scrape:
    worker = (await cluster.worker_status(name)).worker
    return await asyncio.to_thread(scrape, worker.metrics_address)


async def scrape_coordinator(cluster: Cluster) -> Scrape:
    return await asyncio.to_thread(scrape, (await cluster.status()).metrics_address)


async def test_the_counters_are_the_figures_of_the_requests(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    replies = [
        await cluster.generate(PROMPT, mode=mode, max_tokens=40, ignore_eos=True, seed=1)
        for mode in ("ssd", "sd", "ar")
    ]
    verifier = await scrape_worker(cluster, "verifier-0")
    figures = [each.complete.figures for each in replies]
    assert verifier.total("ssd_rounds_total") == sum(each.num_rounds for each in figures)
    assert verifier.value("ssd_rounds_total", mode="ar") == 40
    assert verifier.total("ssd_committed_tokens_total") == 120
    assert verifier.total("ssd_draft_tokens_total") == sum(each.num_proposed for each in figures)
    assert verifier.total("ssd_tested_tokens_total") == sum(each.num_tested for each in figures)
    accepted = sum(each.num_accepted for each in figures)
    assert verifier.total("ssd_accepted_tokens_total") == accepted > 0
    assert verifier.total("ssd_accepted_tokens_at_position_total") == accepted
    wasted = sum(each.num_proposed - each.num_accepted for each in figures)
    assert verifier.total("ssd_wasted_draft_tokens_total") == wasted
    assert verifier.value("ssd_cache_lookups_total", result="hit") == sum(
        each.num_hits for each in figures
    )
    assert verifier.total("ssd_cache_lookups_total") == sum(
        each.num_rounds - 1 for each in figures
    )  # all but the last of each
    assert verifier.total("ssd_verify_seconds_count") == sum(each.num_rounds for each in figures)


async def test_a_shadow_has_counters_of_its_own(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    replies = [
        await cluster.generate(PROMPT, mode="shadow", max_tokens=40, ignore_eos=True, seed=seed)
        for seed in (1, 2)
    ]
    verifier = await scrape_worker(cluster, "verifier-0")
    shadows = [each.complete.shadow for each in replies]
    assert verifier.value("ssd_rounds_total", mode="shadow") == 80
    assert verifier.total("ssd_draft_tokens_total") == 0
    for name, field in (
        ("rounds", "num_rounds"),
        ("draft_tokens", "num_proposed"),
        ("tested_tokens", "num_tested"),
        ("accepted_tokens", "num_accepted"),
    ):
        counted = sum(getattr(each, field) for each in shadows)
        assert verifier.value(f"ssd_shadow_{name}_total") == counted > 0
    assert verifier.value("ssd_shadow_tokens_total") == 80
    hits = sum(each.num_hits for each in shadows)
    assert verifier.value("ssd_shadow_cache_lookups_total", result="hit") == hits


async def test_the_coordinator_counts_requests_and_times(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    reply = await cluster.generate(PROMPT, mode="ssd", max_tokens=20, ignore_eos=True)
    await refusal_of(cluster.generate(PROMPT, max_tokens=0))
    call = cluster.call(PROMPT, mode="ssd", max_tokens=400, ignore_eos=True)
    await call.read()
    call.cancel()

    async def both_ended() -> bool:
        return (await scrape_coordinator(cluster)).total("ssd_requests_total") == 2

    await until(both_ended)
    coordinator = await scrape_coordinator(cluster)
    assert coordinator.value("ssd_requests_total", mode="ssd", outcome="length") == 1
    assert coordinator.value("ssd_requests_total", mode="ssd", outcome="cancelled") == 1
    assert coordinator.value("ssd_request_errors_total", kind="InvalidRequest") == 1
    assert coordinator.value("ssd_prompt_tokens_total") == 10
    assert coordinator.value("ssd_generation_tokens_total") > 20
    assert coordinator.value("ssd_time_to_first_token_seconds_count") == 2
    assert coordinator.value("ssd_request_acceptance_sum") >= reply.acceptance - 1e-6
    assert coordinator.value("ssd_session_openings_total", reason="start") == 2
    assert coordinator.value("ssd_requests_running") == 0
    assert coordinator.value("ssd_requests_queued") == 0


async def test_a_worker_shows_its_memory_slots_and_time(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    await cluster.generate(PROMPT, mode="ssd", max_tokens=20, ignore_eos=True)
    for name, role in (("verifier-0", "verifier"), ("drafter-0", "drafter")):
        worker = await scrape_worker(cluster, name)
        assert worker.value("ssd_memory_bytes", role=role, kind="weights") > 1000
        assert worker.value("ssd_device_seconds_total", role=role) > 0
        assert worker.value("ssd_kv_slots_free", role=role) > 0
        assert "process_resident_memory_bytes" in worker.names
    drafter = await scrape_worker(cluster, "drafter-0")
    assert drafter.value("ssd_draft_step_seconds_count") > 0
    assert drafter.value("ssd_draft_rows_total") > 0


async def test_a_lost_drafter_shows(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    _, drafter = await cluster.pair(target, draft)
    assert (await scrape_worker(cluster, "verifier-0")).value("ssd_drafter_up") == 1
    await cluster.stop(drafter)

    async def is_down() -> bool:
        return (await scrape_worker(cluster, "verifier-0")).value("ssd_drafter_up") == 0

    await until(is_down)
    await cluster.generate(PROMPT, mode="ssd", max_tokens=10, ignore_eos=True)
    verifier = await scrape_worker(cluster, "verifier-0")
    assert verifier.value("ssd_cache_lookups_total", result="absent") == 9
    assert verifier.value("ssd_fallback_rounds_total", reason="no_drafter") == 10


async def test_prometheus_finds_every_process_at_the_coordinator(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    status = await cluster.status()
    page = await asyncio.to_thread(read_page, status.metrics_address, "/targets")
    found = {group["labels"]["worker"]: group for group in json.loads(page)}
    assert set(found) == {"coordinator", "verifier-0", "drafter-0"}
    for worker in (each.worker for each in status.workers):
        assert found[worker.name]["targets"] == [worker.metrics_address]
    role = registry_pb2.Role.Name(registry_pb2.ROLE_DRAFTER).removeprefix("ROLE_").lower()
    assert found["drafter-0"]["labels"]["role"] == role


async def test_figures_can_be_switched_off(cluster: Cluster, target: LoadedModel) -> None:
    await cluster.coordinate(metrics={"enabled": False})
    await cluster.verify(target)
    status = await cluster.status()
    assert not status.metrics_address
    assert not status.workers[0].worker.metrics_address


async def test_a_taken_metrics_port_is_named(cluster: Cluster, target: LoadedModel) -> None:
    await cluster.coordinate()
    port = int((await cluster.status()).metrics_address.rpartition(":")[2])
    other = Cluster()
    with pytest.raises(ConfigError, match=f"metrics: port {port} of 127.0.0.1 is taken"):
        await other.coordinate(metrics={"coordinator_port": port})
    assert (await refusal_of(cluster.generate(PROMPT)))[0] is grpc.StatusCode.UNAVAILABLE


async def test_every_metric_of_dashboard_and_rules_exists(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    for mode in ("ssd", "sd", "ar"):
        await cluster.generate(PROMPT, mode=mode, max_tokens=40, ignore_eos=True)
    await refusal_of(cluster.generate(PROMPT, max_tokens=0))
    served = (await scrape_coordinator(cluster)).names
    for name in ("verifier-0", "drafter-0"):
        served |= (await scrape_worker(cluster, name)).names
    files = (DASHBOARD, PROMETHEUS / "ssd.rules.yml")
    wanted = {name for file in files for name in METRIC.findall(file.read_text())}
    assert len(wanted) > 30
    assert wanted <= served, wanted - served


async def test_a_scrape_under_load_is_quick(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    """Also with a minute's worth of rounds in the window; the median, of a busy machine."""
    verifier, _ = await cluster.pair(target, draft)
    load = [
        asyncio.create_task(cluster.generate(PROMPT, mode="ssd", max_tokens=300, ignore_eos=True))
        for _ in range(4)
    ]
    address = (await cluster.worker_status("verifier-0")).worker.metrics_address
    seconds = []
    while not all(each.done() for each in load):
        began = time.perf_counter()
        await asyncio.to_thread(read_page, address, "/metrics")
        seconds.append(time.perf_counter() - began)
        await asyncio.sleep(0.02)
    await asyncio.gather(*load)
    assert verifier.verifier.num_rounds > 100
    assert statistics.median(seconds) < 0.05, seconds
