"""Ten thousand requests of mixed length with random cancels: nothing is left, nothing grows."""

import asyncio
import gc
import random
import sys
from pathlib import Path

import pytest

from ssd.engine.loading import LoadedModel
from tests.services.cluster import Cluster, read_rest, read_some, until

NUM_REQUESTS = 10_000
WARM_UP = 3_000
NUM_AT_ONCE = 12
KV_SLOTS = 4096
PREFIXES = tuple(tuple((index * step) % 200 for index in range(150)) for step in (3, 7, 11))


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Traffic:
    """Requests of every kind, some of which share a beginning and some of which are cancelled."""

    def __init__(self, cluster: Cluster) -> None:
        self.num_done = self.num_cancelled = 0
        self._cluster = cluster
        self._rng = random.Random(5)

    async def run(self, num_requests: int) -> None:
        places = asyncio.Semaphore(NUM_AT_ONCE)

        async def one() -> None:
            async with places:
                await self._request()

        await asyncio.gather(*(one() for _ in range(num_requests)))

    async def _request(self) -> None:
        rng = self._rng
        prompt = [rng.randrange(256) for _ in range(rng.choice((1, 3, 10, 40, 120)))]
        if rng.random() < 0.3:
            prompt = [*rng.choice(PREFIXES)[: rng.randrange(150)], *prompt]
        num_tokens = rng.choice((1, 2, 8, 20, 60))
        is_cancelled = rng.random() < 0.25
        call = self._cluster.call(
            prompt,
            mode=rng.choice(("ssd", "ssd", "sd", "ar")),
            temperature=rng.choice((0.0, 1.0)),
            max_tokens=200 if is_cancelled else num_tokens,
            ignore_eos=True,
        )
        self.num_done += 1
        if not is_cancelled:
            assert len((await read_rest(call)).token_ids) == num_tokens
            return
        await read_some(call, rng.randrange(20))
        call.cancel()
        self.num_cancelled += 1


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_ten_thousand_requests_leave_memory_and_slots_as_they_were(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    """Case G3."""
    await cluster.coordinate(verifier={"kv_slots": KV_SLOTS}, drafter={"kv_slots": KV_SLOTS})
    verifier, drafter = await cluster.pair(target, draft)
    pools = (verifier.verifier.room.pool, drafter.drafter.pool)
    traffic = Traffic(cluster)
    await traffic.run(WARM_UP)
    await cluster.until_freed()
    before = _resident_bytes()
    await traffic.run(NUM_REQUESTS - WARM_UP)
    await cluster.until_freed()
    after = _resident_bytes()

    async def is_empty() -> bool:
        return not (await cluster.status()).sessions

    await until(is_empty)
    sys.stdout.write(
        f"\n{traffic.num_done} requests, {traffic.num_cancelled} cancelled: resident "
        f"{before / 2**20:.1f} MiB after {WARM_UP}, {after / 2**20:.1f} MiB at the end"
        f" ({after / before - 1:+.2%}); {[pool.num_evicted for pool in pools]} prefixes evicted,"
        f" {[pool.num_prefix_hits for pool in pools]} used\n"
    )
    assert traffic.num_done == NUM_REQUESTS
    assert abs(after / before - 1) <= 0.02
    for pool in pools:
        assert pool.num_held == 0
        pool.drop_cached()
        pool.check()
        assert pool.num_free == pool.num_slots
