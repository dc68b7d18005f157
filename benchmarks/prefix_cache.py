"""How much sooner the first token comes when a prompt's beginning was seen before.

    python benchmarks/prefix_cache.py [--target FOLDER] [--draft FOLDER] [--json FILE]

The three services run in one process over gRPC on this machine, with real models. Each pair of
requests shares 512 tokens of prompt that no other pair has; the time is the client's, from the call
to the first token.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from ssd.engine.loading import LoadedModel, load_model
from tests.services.cluster import Cluster, read_rest, read_some

MODELS = Path(__file__).resolve().parents[1] / "models" / "pystd"
PREFIX_LEN = 512
NUM_PAIRS = 7


async def _first_token_s(cluster: Cluster, prompt: Sequence[int]) -> float:
    start = time.perf_counter()
    call = cluster.call(prompt, temperature=0.0, max_tokens=8)
    await read_some(call, 1)
    seconds = time.perf_counter() - start
    await read_rest(call)
    await cluster.until_freed()
    return seconds


async def measure(target: LoadedModel, draft: LoadedModel) -> dict[str, float]:
    """Median seconds to the first token, of first and of second requests, and their ratio."""
    rng = random.Random(1)
    first, second = [], []
    cluster = Cluster()
    try:
        await cluster.pair(target, draft)
        await cluster.generate([5] * 20, temperature=0.0, max_tokens=20)  # warm
        for _ in range(NUM_PAIRS):
            prefix = [rng.randrange(300, target.vocab_size) for _ in range(PREFIX_LEN)]
            first.append(await _first_token_s(cluster, [*prefix, *range(300, 308)]))
            second.append(await _first_token_s(cluster, [*prefix, *range(310, 318)]))
    finally:
        await cluster.close()
    return {
        "prefix_tokens": PREFIX_LEN,
        "first_ms": round(1e3 * statistics.median(first), 2),
        "second_ms": round(1e3 * statistics.median(second), 2),
        "ratio": round(statistics.median(first) / statistics.median(second), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default=str(MODELS / "target"))
    parser.add_argument("--draft", default=str(MODELS / "draft"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    models = load_model(arguments.target), load_model(arguments.draft)
    result = asyncio.run(measure(*models))
    print(result)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
