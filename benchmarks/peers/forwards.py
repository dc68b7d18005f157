"""Why an engine is faster: what one forward of the same model takes in each, by rows and cores.

    python -m benchmarks.peers --forwards                      runs it after the contest
    python -m benchmarks.peers.forwards TARGET DRAFT OUT       as benchmarks.peers.export left them

Milliseconds over a text of some 200 tokens, the lowest quarter of many: what other work on the
machine adds is not in it. `beside a draft` is our own target on one core
while the draft runs without a pause on the other: what both take from memory they take from each
other.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openvino as ov
import torch
import xllamacpp
from transformers import AutoModelForCausalLM, DynamicCache

from benchmarks.peers.engine import Models
from benchmarks.peers.llamacpp_engine import server_params
from benchmarks.peers.openvino_engine import EXACT
from ssd.bench.rows import prompt_rows, tree_rows
from ssd.core.ids import KvId
from ssd.engine.loading import load_model

_TEXT = 192
_TURNS = 24
_ROWS = (1, 6)
_SETTLE_S = 8.0  # until the draft in the other process has loaded
_KV_ID = KvId("forwards")
_THIS = (sys.executable, "-m", "benchmarks.peers.forwards")

Forward = Callable[[int], None]
"""Runs so many rows."""


def main() -> None:
    """Each engine and number of threads has a process of its own: some count cores once."""
    if sys.argv[1] == "spin":
        _spin(Path(sys.argv[2]))
    if sys.argv[1] == "measure":
        _measure(*sys.argv[2:])
        return
    target, draft, out = (Path(each) for each in sys.argv[1:])
    cores = sorted(os.sched_getaffinity(0))
    for role, folder in (("target", target), ("draft", draft)):
        for threads in (1, 2):
            os.sched_setaffinity(0, cores[:threads])  # which the process inherits
            for name in _ENGINES:
                arguments = [name, role, str(folder), str(out), str(threads)]
                subprocess.run([*_THIS, "measure", *arguments], check=True)
    os.sched_setaffinity(0, cores)
    _beside_a_draft(target, draft, cores)


def _measure(name: str, role: str, folder: str, out: str, threads: str) -> None:
    exported = Path(out)
    formats = _Formats(Path(folder), exported / f"{role}.gguf", exported / f"{role}-openvino")
    words = _ENGINES[name](formats, int(threads))
    print(f"{role}, {threads} threads, {name}: {words}", flush=True)


@dataclass(frozen=True, slots=True)
class _Formats:
    """One model in the formats of all engines."""

    folder: Path
    gguf: Path
    openvino: Path


def _quarter_ms(forward: Forward, num_rows: int) -> float:
    forward(num_rows)
    spent = []
    for _ in range(_TURNS):
        began = time.perf_counter()
        forward(num_rows)
        spent.append(time.perf_counter() - began)
    return _lowest_quarter(spent) * 1e3


def _lowest_quarter(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 4]


def _words(forward: Forward) -> str:
    return ", ".join(f"{rows} rows {_quarter_ms(forward, rows):.2f}" for rows in _ROWS)


def _our_forward(model: Path, threads: int) -> Forward:
    torch.set_num_threads(threads)
    runner = load_model(str(model), dtype="fp32").runner
    runner.forward([prompt_rows(_KV_ID, 0, _TEXT)])

    def forward(num_rows: int) -> None:
        runner.forward([tree_rows(_KV_ID, past_len=_TEXT, num_nodes=num_rows)])

    return forward


def _ours(model: _Formats, threads: int) -> str:
    return _words(_our_forward(model.folder, threads))


def _openvino(model: _Formats, threads: int) -> str:
    options = {"INFERENCE_NUM_THREADS": threads, **EXACT}
    compiled = ov.Core().compile_model(model.openvino / "openvino_model.xml", "CPU", options)
    request = compiled.create_infer_request()
    past = 0

    def forward(num_rows: int) -> None:
        nonlocal past
        request.infer(
            {
                "input_ids": np.ones((1, num_rows), np.int64),
                "attention_mask": np.ones((1, past + num_rows), np.int64),
                "position_ids": np.arange(past, past + num_rows, dtype=np.int64)[None],
                "beam_idx": np.zeros(1, np.int32),
            }
        )
        past += num_rows

    forward(_TEXT)
    return _words(forward)


@torch.inference_mode()
def _transformers(model: _Formats, threads: int) -> str:
    torch.set_num_threads(threads)
    theirs = AutoModelForCausalLM.from_pretrained(model.folder, dtype=torch.float32).eval()
    cache = DynamicCache(config=theirs.config)

    def forward(num_rows: int) -> None:
        theirs(torch.ones((1, num_rows), dtype=torch.long), cache=cache)

    forward(_TEXT)
    return _words(forward)


def _llamacpp(model: _Formats, threads: int) -> str:
    """By the server's own clock: decoding, and a prompt that goes on where the last one ended."""
    server = xllamacpp.Server(server_params(Models(str(model.gguf), "", threads), None))
    text = [200 + index % 1000 for index in range(_TEXT)]
    one = _completion(server, text, num_tokens=_TURNS)
    spent, counts = [], set()
    for turn in range(_TURNS):
        text += [300 + turn] * 6
        timings = _completion(server, text, num_tokens=1)
        spent.append(timings["prompt_ms"])
        counts.add(timings["prompt_n"])
    one_ms = one["predicted_ms"] / (_TURNS - 1)
    return f"1 rows {one_ms:.2f}, {sorted(counts)} rows {_lowest_quarter(spent):.2f}"


def _completion(server: xllamacpp.Server, text: list[int], *, num_tokens: int) -> dict[str, float]:
    asked = {"prompt": text, "n_predict": num_tokens, "temperature": 0.0, "cache_prompt": True}
    request = urllib.request.Request(
        f"{server.listening_address}/completion",
        json.dumps({**asked, "ignore_eos": True}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        timings: dict[str, float] = json.load(reply)["timings"]
        return timings


def _beside_a_draft(target: Path, draft: Path, cores: Sequence[int]) -> None:
    os.sched_setaffinity(0, {cores[-1]})
    forward = _our_forward(target, 1)
    print(f"target, 1 threads, ssd alone: {_words(forward)}")
    spinning = subprocess.Popen([*_THIS, "spin", str(draft)])
    os.sched_setaffinity(spinning.pid, {cores[0]})
    try:
        time.sleep(_SETTLE_S)
        print(f"target, 1 threads, ssd beside a draft: {_words(forward)}", flush=True)
    finally:
        spinning.kill()
        spinning.wait()


def _spin(draft: Path) -> None:
    forward = _our_forward(draft, 1)
    while True:
        forward(8)


_ENGINES: dict[str, Callable[[_Formats, int], str]] = {
    "ssd": _ours,
    "llama.cpp": _llamacpp,
    "openvino": _openvino,
    "transformers": _transformers,
}

if __name__ == "__main__":
    main()
