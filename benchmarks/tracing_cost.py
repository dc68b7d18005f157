"""What tracing costs: tokens per second of a service that samples, against one without tracing.

    python -m benchmarks.tracing_cost --ratio 0.01
    python -m benchmarks.tracing_cost --ratio 1

Both services run the embedded pair on this machine, each as three processes, and only one of them
has a request at a time. A pair of measurements asks both for the same prompts, prompt by prompt in
alternating order; no prompt comes in two pairs, so that nothing is remembered. Every few pairs all
processes are started anew, because two equal processes may differ in speed by their luck with
memory, and the other side first: of two equal services the one that was started first ran 2 %
slower (--equal). A collector that keeps the spans runs in this process, on the same cores.

With --same-processes there is one service, which samples, and the other side are requests that
their caller marks as not sampled: they cost one parse of a header more than without tracing, and
the luck of two sets of processes is out of the comparison.

Mode `sd` takes turns, so its speed scatters less than that of `ssd`, and it makes the same spans.

With --keep FILE the pairs of one run join those of earlier runs with the same arguments, for a
machine that is not quiet for long enough.
"""

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from scipy import stats

from ssd.client import Client, Options
from ssd.core.mode import Mode
from ssd.wire.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.e2e.processes import Service

_MODELS = Path(__file__).resolve().parents[1] / "models/tales"
_NAMES = ("Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Ida", "Jack")
_PLACES = ("forest", "village", "garden", "castle", "river", "mountain", "meadow", "harbour")
_CONFIDENCE = 0.95
_WARM_UP = 24  # requests; new processes have slow moments in their first twenty
_PROMPTS_A_RUN = 10_000
_UNSAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

Pair = tuple[float, float]
"""Tokens per second without tracing and with it."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two that are compared."""

    address: str
    traceparent: str | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratio", type=float, default=0.01, help="share of requests sampled")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--restarts", type=int, default=4, help="lives of the processes")
    parser.add_argument("--requests", type=int, default=6, help="requests of one measurement")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument(
        "--mode", type=Mode, default=Mode.SSD, choices=list(Mode), help="of speculation"
    )
    parser.add_argument("--same-processes", action="store_true")
    parser.add_argument("--equal", action="store_true", help="neither traces: what scatters alone")
    parser.add_argument("--keep", type=Path, help="file that pairs are added to and read from")
    chosen = parser.parse_args()
    kept = _kept(chosen.keep)
    prompts = islice(_prompts(), _PROMPTS_A_RUN * len(kept), None)
    pairs: list[Pair] = []
    num_spans = 0
    with otlp_receiver() as receiver:
        for life in range(chosen.restarts):
            with ExitStack() as stack:
                off, traced = _sides(stack, receiver, chosen, plain_first=bool(life % 2))
                for prompt in islice(prompts, _WARM_UP):
                    for side in (off, traced):
                        _run(side, prompt, chosen.tokens, chosen.mode)
                for _ in range(life, chosen.pairs, chosen.restarts):
                    asked = [next(prompts) for _ in range(chosen.requests)]
                    pairs.append(_pair(off, traced, asked, chosen.tokens, chosen.mode))
        num_spans = len(receiver.spans)
    if chosen.keep is not None:
        chosen.keep.write_text(json.dumps([*kept, pairs]))
    pairs += [pair for run in kept for pair in run]
    ratios = [traced_speed / plain_speed for plain_speed, traced_speed in pairs]
    low, high = _interval(ratios)
    print(
        json.dumps(
            {
                "sampled": chosen.ratio,
                "mode": chosen.mode.value,
                "same_processes": chosen.same_processes,
                "equal": chosen.equal,
                "pairs": len(ratios),
                "tokens_per_s_off": round(statistics.median(plain for plain, _ in pairs), 1),
                "ratio": round(math.exp(statistics.mean(map(math.log, ratios))), 4),
                "ratio_95": [round(low, 4), round(high, 4)],
                "spans": num_spans,
            }
        )
    )


def _sides(
    stack: ExitStack, receiver: OtlpReceiver, chosen: argparse.Namespace, *, plain_first: bool
) -> tuple[Side, Side]:
    """Without tracing and with it, started in this order or the other."""
    ratio = 0.0 if chosen.equal else chosen.ratio
    collector = None if chosen.equal else receiver
    if chosen.same_processes:
        traced = Side(stack.enter_context(_service(receiver, ratio)))
        return Side(traced.address, _UNSAMPLED), traced
    if plain_first:
        off = Side(stack.enter_context(_service(None)))
        return off, Side(stack.enter_context(_service(collector, ratio)))
    traced = Side(stack.enter_context(_service(collector, ratio)))
    return Side(stack.enter_context(_service(None))), traced


@contextmanager
def _service(receiver: OtlpReceiver | None, ratio: float = 0.0) -> Iterator[str]:
    """The address of a service that exports to the receiver, or has no tracing."""
    cores = sorted(os.sched_getaffinity(0))
    pinned = {"verifier__core": cores[-1], "drafter__core": cores[-2]} if len(cores) > 1 else {}
    with (
        tempfile.TemporaryDirectory() as folder,
        nullcontext() if receiver is None else _variables(receiver, ratio),
    ):
        service = Service(Path(folder), _MODELS / "target", _MODELS / "draft")
        try:
            service.start_all(models__target_dtype="fp32", models__draft_dtype="fp32", **pinned)
            yield service.address
        finally:
            service.close()


@contextmanager
def _variables(receiver: OtlpReceiver, ratio: float) -> Iterator[None]:
    os.environ |= {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "OTEL_EXPORTER_OTLP_INSECURE": "true",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": str(ratio),
    }
    try:
        yield
    finally:
        for name in [each for each in os.environ if each.startswith("OTEL_")]:
            del os.environ[name]


def _prompts() -> Iterator[str]:
    """Prompts that never repeat."""
    number = 0
    while True:
        name, place = _NAMES[number % len(_NAMES)], _PLACES[number // len(_NAMES) % len(_PLACES)]
        yield f"Once upon a time {name} lived near the {place}, in house {number}."
        number += 1


def _kept(file: Path | None) -> list[list[Pair]]:
    """The pairs of earlier runs, run by run."""
    return json.loads(file.read_text()) if file is not None and file.exists() else []


def _pair(off: Side, traced: Side, prompts: Sequence[str], num_tokens: int, mode: Mode) -> Pair:
    """Tokens per second of both sides over the same prompts."""
    tokens = {off: 0, traced: 0}
    seconds = {off: 0.0, traced: 0.0}
    for number, prompt in enumerate(prompts):
        for side in (off, traced) if number % 2 else (traced, off):
            more_tokens, more_seconds = _run(side, prompt, num_tokens, mode)
            tokens[side] += more_tokens
            seconds[side] += more_seconds
    return tokens[off] / seconds[off], tokens[traced] / seconds[traced]


def _run(side: Side, prompt: str, num_tokens: int, mode: Mode) -> tuple[int, float]:
    """Tokens after the text's first, and the time that they took."""
    options = Options(
        max_tokens=num_tokens,
        temperature=0.0,
        mode=mode,
        ignore_eos=True,
        traceparent=side.traceparent,
    )
    with Client(side.address) as client:
        arrivals = [
            (time.perf_counter(), len(piece.token_ids))
            for piece in client.generate(prompt, options)
            if piece.token_ids
        ]
    tokens = sum(count for _, count in arrivals) - arrivals[0][1]
    return tokens, arrivals[-1][0] - arrivals[0][0]


def _interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Student's interval of the geometric mean."""
    logs = [math.log(each) for each in ratios]
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    reach = float(stats.t.ppf((1 + _CONFIDENCE) / 2, len(logs) - 1)) * error
    middle = statistics.mean(logs)
    return math.exp(middle - reach), math.exp(middle + reach)


if __name__ == "__main__":
    main()
