"""How much sooner the first token comes when a prompt's beginning was seen before.

    python -m benchmarks.prefix_cache [--target FOLDER] [--draft FOLDER] [--json FILE]

The three services run as processes on this machine, with real models in fp32. Each pair of requests
shares 512 tokens of prompt that no other pair has; the time is the client's, from the call to the
first token.
"""

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ssd.client import Client, Options
from ssd.threads import run_soon
from tests.e2e.processes import Service

MODELS = Path(__file__).resolve().parents[1] / "models" / "pystd"
PREFIX_LEN = 512
NUM_PAIRS = 15
OPTIONS = Options(temperature=0.0, max_tokens=8, ignore_eos=True)
LOWEST_ID, HIGHEST_ID = 300, 1000  # of both embedded pairs, none of them special
REST_S = 0.1  # until the session before is gone on both sides


def _first_token_s(client: Client, prompt: Sequence[int]) -> float:
    start = time.perf_counter()
    arrivals = [
        time.perf_counter() for piece in client.generate(prompt, OPTIONS) if piece.token_ids
    ]
    time.sleep(REST_S)
    return arrivals[0] - start


def measure(address: str) -> dict[str, float]:
    """Median seconds to the first token, of first and of second requests, and their ratio."""
    run_soon()  # the client shares the cores here
    rng = random.Random(1)
    first, second = [], []
    with Client(address) as client:
        _first_token_s(client, [LOWEST_ID] * 20)  # warm
        for _ in range(NUM_PAIRS):
            prefix = [rng.randrange(LOWEST_ID, HIGHEST_ID) for _ in range(PREFIX_LEN)]
            first.append(_first_token_s(client, [*prefix, *range(300, 308)]))
            second.append(_first_token_s(client, [*prefix, *range(310, 318)]))
    return {
        "prefix_tokens": PREFIX_LEN,
        "first_ms": round(1e3 * statistics.median(first), 2),
        "second_ms": round(1e3 * statistics.median(second), 2),
        "ratio": round(statistics.median(first) / statistics.median(second), 1),
        "ratio_of_pairs": round(
            statistics.median(one / two for one, two in zip(first, second, strict=True)), 1
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, default=MODELS / "target")
    parser.add_argument("--draft", type=Path, default=MODELS / "draft")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    pinned = {"verifier__core": cores[-1], "drafter__core": cores[-2]} if len(cores) > 1 else {}
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder), arguments.target, arguments.draft)
        try:
            service.start_all(models__target_dtype="fp32", models__draft_dtype="fp32", **pinned)
            result = measure(service.address)
        finally:
            service.close()
    print(result)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
