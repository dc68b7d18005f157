"""What each way to draft brings in a whole service, and what the worst drafter costs.

    python -m benchmarks.drafters served     tokens per round and per second by drafter
    python -m benchmarks.drafters novel      plain decoding beside the worst drafter

Figures are kept in benchmarks/results/drafters.json; each command replaces its own. One service for
all drafters: a request names those that may work for it. Prompts are distinct, settings take turns.
"""

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from scripts.tales_grammar import draw_tale, exchange
from ssd.cli.serve import is_serving
from ssd.client import Client, Options
from ssd.cluster.local_service import local_service
from ssd.config import load_config
from ssd.core.cost_model import CostModel
from ssd.core.drafter_kind import DrafterKind
from ssd.core.hindsight import hindsight
from ssd.core.mode import Mode
from ssd.core.rounds import WhyPlain
from ssd.core.speculation_limits import SpeculationLimits
from ssd.wire.flight_file import unpack

CHECKOUT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results" / "drafters.json"
READY_S = 120.0
MODEL, NGRAM, SELF = DrafterKind.MODEL, DrafterKind.NGRAM, DrafterKind.SELF


@dataclass(frozen=True)
class Answer:
    """One generation's counts."""

    tokens: int
    rounds: int
    seconds: float
    figures: Any
    records: tuple[bytes, ...]


# ── services ──────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def service(overrides: Mapping[str, object]) -> Iterator[Client]:
    """A client of a service on this machine."""
    settings = {"coordinator.port": 0, "logging.level": "error"} | dict(overrides)
    config = load_config(file=None, environment={}, overrides=settings).config
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,
        local_service(config, run_dir=Path(folder), report=lambda line: None) as running,
    ):
        running.wait_until(
            lambda: is_serving(running.address, num_workers=len(running.workers)),
            deadline_s=READY_S,
        )
        with Client(running.address) as client:
            yield client


def ask(client: Client, prompt: str, drafters: frozenset[DrafterKind], **options: Any) -> Answer:
    """One generation; none of the drafters is plain decoding."""
    mode = Mode.SSD if drafters else Mode.AR
    limits = SpeculationLimits(drafters=drafters or None)
    generation = client.generate(prompt, Options(mode=mode, speculation=limits, **options))
    times = [time.perf_counter() for _ in generation]
    completion = generation.completion
    records = client.dump(completion.request_id, with_tokens=True)
    return Answer(
        tokens=completion.num_completion_tokens,
        rounds=completion.figures.num_rounds,
        seconds=times[-1] - times[0],
        figures=completion.figures,
        records=tuple(records),
    )


# ── all drafters ──────────────────────────────────────────────────────────────────────────────────


def tale_edits(count: int) -> list[str]:
    """A tale, and the request to tell it again with one thing changed."""
    rng = random.Random(77)
    prompts = []
    for _ in range(count):
        tale = draw_tale(rng)
        request, _ = exchange(rng, tale)
        prompts.append(f"{tale.render()}\n\n{request}\n\n")
    return prompts


def served(count: int) -> dict[str, Any]:
    """Tokens per round and per second of each drafter, on the same prompts: the embedded target is
    asked to tell a tale again with one thing changed."""
    overrides = {"speculation.drafters": "model,ngram"}
    model, prompts, tokens = MODEL, tale_edits(count), 160
    choices = {
        "none": frozenset[DrafterKind](),
        "ngram": frozenset({NGRAM}),
        str(model): frozenset({model}),
        f"{model} + ngram": frozenset({model, NGRAM}),
    }
    answers: dict[str, list[Answer]] = {name: [] for name in choices}
    with service(overrides) as client:
        for kinds in choices.values():
            ask(client, prompts[0], kinds, max_tokens=32, temperature=0.0)
        for index, prompt in enumerate(prompts):
            for name, kinds in turned(choices, index):
                answer = ask(client, prompt, kinds, max_tokens=tokens, temperature=0.0)
                answers[name].append(answer)
    texts = {name: [each.tokens for each in mine] for name, mine in answers.items()}
    assert len({tuple(each) for each in texts.values()}) == 1, f"texts differ in length: {texts}"
    rows = {name: row(mine) for name, mine in answers.items()}
    both = answers[f"{model} + ngram"]
    return {"rows": rows, "oracle": oracle(both), "num_prompts": len(prompts), "tokens": tokens}


def turned(choices: Mapping[str, Any], index: int) -> list[tuple[str, Any]]:
    """In another order for each prompt."""
    items = list(choices.items())
    start = index % len(items)
    return items[start:] + items[:start]


def row(answers: Sequence[Answer]) -> dict[str, Any]:
    seconds = sum(each.seconds for each in answers)
    figures = [each.figures for each in answers]
    proposed = sum(each.num_proposed for each in figures)
    by_kind = {
        kind.value: sum(each.drafters[kind.value].num_accepted for each in figures)
        for kind in DrafterKind
        if any(kind.value in each.drafters for each in figures)
    }
    return {
        "tokens_per_round": sum(each.tokens for each in answers)
        / sum(each.rounds for each in answers),
        "tokens_per_s": sum(each.tokens - 1 for each in answers) / seconds,
        "node_yield": sum(each.num_accepted for each in figures) / max(proposed, 1),
        "verify_ms": statistics.mean(each.verify_ms for each in figures),
        "accepted_of": by_kind,
    }


def oracle(answers: Sequence[Answer], *, row_share: float = 0.03) -> dict[str, Any]:
    """The run beside the best in hindsight, where a row costs this share of a forward."""
    files = [unpack(record) for each in answers for record in each.records]
    records = [file.segments for file in files if file.role == "verifier"]
    cost = CostModel([(1, 1.0), (9, 1.0 + 8 * row_share)])
    seen = hindsight(records, cost, max_nodes=8)
    return {
        "num_rounds": seen.num_rounds,
        "reached": seen.reached,
        "actual": seen.actual,
        "best": seen.best,
        "always": dict(seen.always),
    }


# ── new text ──────────────────────────────────────────────────────────────────────────────────────


def worst_draft(folder: Path) -> Path:
    """The embedded draft with random weights, and sure of itself: hardly ever right."""
    source = CHECKOUT / "models" / "tales" / "draft"
    torch.manual_seed(5)
    model = LlamaForCausalLM(LlamaConfig.from_pretrained(source))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(4.0)
    model.save_pretrained(folder)
    for file in source.glob("tokenizer*"):
        shutil.copy(file, folder)
    return folder


def novel(count: int, tokens: int) -> dict[str, Any]:
    """Tokens per second with the worst drafter over those of plain decoding, prompt by prompt."""
    rng = random.Random(78)
    prompts = [draw_tale(rng).render()[:60] for _ in range(count)]
    plain: list[Answer] = []
    worst: list[Answer] = []
    none: frozenset[DrafterKind] = frozenset()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        overrides = {
            "models.draft": str(worst_draft(Path(folder))),
            "speculation.drafters": "model,ngram",
        }
        kinds = frozenset({MODEL})
        with service(overrides) as client:
            for choice in (none, kinds):
                ask(client, prompts[0], choice, max_tokens=64, temperature=1.0, ignore_eos=True)
            for index, prompt in enumerate(prompts):
                options = {"max_tokens": tokens, "temperature": 1.0, "seed": index}
                pairs = [(plain, none), (worst, kinds)]
                for mine, choice in pairs if index % 2 else reversed(pairs):
                    mine.append(ask(client, prompt, choice, ignore_eos=True, **options))
    ratios = [a.seconds / b.seconds for a, b in zip(plain, worst, strict=True)]
    paused = sum(each.figures.plain_rounds[WhyPlain.PAUSED.value] for each in worst)
    model = [each.figures.drafters[MODEL.value] for each in worst]
    return {
        "num_prompts": count,
        "tokens": tokens,
        "ratio": sum(each.seconds for each in plain) / sum(each.seconds for each in worst),
        "median_ratio": statistics.median(ratios),
        "ratios": ratios,
        "plain_tokens_per_s": sum(each.tokens - 1 for each in plain)
        / sum(each.seconds for each in plain),
        "paused_share": paused / sum(each.rounds for each in worst),
        "accepted": sum(each.num_accepted for each in model),
        "proposed": sum(each.num_proposed for each in model),
        "num_probes": sum(each.num_probes for each in model),
        "why": model[0].why,
    }


# ── keeping ───────────────────────────────────────────────────────────────────────────────────────


def keep(name: str, result: dict[str, Any]) -> None:
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known[name] = result
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(known, indent=1) + "\n")
    print(json.dumps({name: result}, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["served", "novel"])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=384)
    arguments = parser.parse_args()
    if arguments.part == "served":
        keep("served", served(arguments.count))
    else:
        keep("novel", novel(arguments.count, arguments.tokens))


if __name__ == "__main__":
    main()
