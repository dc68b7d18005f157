"""The engines that people would use instead, beside ours: same pair, prompts, cores and ids.

    make bench-peers                                makes .venv-peers and runs all of it
    python -m benchmarks.peers --blocks 2 --prompts 3

The pair `pystd` is padded until a draft step costs 0.13 of a verification (regime `paper` of `ssd
bench`) and written in every engine's format. Each engine runs plain and with the draft, at the
draft length that was fastest on other prompts; all decode greedily in float32. Tokens per second
leave the prompt out. docs/performance.md says what came out.
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tokenizers import Tokenizer

from benchmarks.peers.contest import Contestant, Outcome, Plan, Run, hold
from benchmarks.peers.engine import Drafting, Models
from benchmarks.peers.foreign_load import ForeignLoad
from benchmarks.peers.identity import Difference, Judge
from benchmarks.peers.report import OURS, Report
from benchmarks.peers.ssd_engine import ServiceMode, serving
from benchmarks.peers.subprocess_engine import SubprocessEngine
from ssd.core.mode import Mode
from ssd.core.rounds import figures_of
from ssd.service_bench.padded_pair import Pair, PairShop
from ssd.service_bench.prompts import Workload, prompts_of
from ssd.service_bench.regime import Regime, Widths

_CHECKOUT = Path(__file__).resolve().parents[2]
_SOURCE = _CHECKOUT / "models" / "pystd"
_REFERENCE = "ssd, plain"
PEERS = ("transformers", "llama.cpp", "openvino")


def main() -> None:
    """Exit status 1 when a text of ours differs by more than a near-tie; the report counts those
    of the others."""
    arguments = _arguments()
    plan = Plan(arguments.blocks, arguments.prompts, arguments.tokens)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ssd-peers-") as folder:
        pair = _pair(Path(folder), arguments.widths)
        print(pair)
        formats = _exported(pair, folder, arguments)
        prompts = _prompts(plan)
        load = ForeignLoad()
        with ExitStack() as stack:
            modes = stack.enter_context(serving(formats["ssd"], arguments.set))
            contestants = [*_ours(modes), *_peers(formats, arguments, stack)]
            given = dict(arguments.draft)
            contestants = [
                replace(each, drafting=given.get(each.name, each.drafting)) for each in contestants
            ]
            outcome = hold(contestants, prompts, plan, print, load=load)
            report = _report(outcome, plan, prompts, pair, modes[Mode.SSD])
            _leave(report, arguments.out)
        if arguments.forwards:
            _run_for_peers(arguments, "forwards", pair, folder)
    if not report.are_ours_identical:
        raise SystemExit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--peers-python", type=Path, default=Path(".venv-peers/bin/python"))
    parser.add_argument("--peer", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--prompts", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--widths", type=Widths.parse, help="TARGET,DRAFT; default: measured")
    parser.add_argument(
        "--draft",
        action="append",
        default=[],
        type=_named_drafting,
        metavar="NAME=TOKENS",
        help="Draft so far instead of searching, such as 'openvino, draft=3'.",
    )
    parser.add_argument("--forwards", action="store_true", help="Time single forwards as well.")
    parser.add_argument("--out", type=Path, default=Path("out/peers"))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


def _named_drafting(text: str) -> tuple[str, Drafting]:
    name, _, count = text.partition("=")
    return name, Drafting(int(count))


def _pair(folder: Path, widths: Widths | None) -> Pair:
    core = max(os.sched_getaffinity(0))
    shop = PairShop(_SOURCE / "target", _SOURCE / "draft", folder, dtype="fp32", core=core)
    goal = Regime.PAPER.goal
    assert goal is not None, "the paper's regime is a padded one"
    return shop.padded(widths) if widths else shop.padded_to(goal, print)


def _run_for_peers(arguments: argparse.Namespace, module: str, pair: Pair, folder: str) -> None:
    """A module of ours with the packages of the peers."""
    command = [str(arguments.peers_python), "-m", f"benchmarks.peers.{module}"]
    command += [str(pair.target), str(pair.draft), folder]
    subprocess.run(command, cwd=_CHECKOUT, check=True)


def _exported(pair: Pair, folder: str, arguments: argparse.Namespace) -> dict[str, Models]:
    """The pair in each engine's format."""
    _run_for_peers(arguments, "export", pair, folder)
    threads = len(os.sched_getaffinity(0))
    plain = Models(str(pair.target), str(pair.draft), threads)
    return {
        "ssd": plain,
        "transformers": plain,
        "llama.cpp": Models(f"{folder}/target.gguf", f"{folder}/draft.gguf", threads),
        "openvino": Models(f"{folder}/target-openvino", f"{folder}/draft-openvino", threads),
    }


def _prompts(plan: Plan) -> list[tuple[int, ...]]:
    """Source that the pair was not trained on, no piece twice."""
    target = _SOURCE / "target"
    count = plan.num_prompts_in_all
    texts = prompts_of(Workload.CODE, target=target, count=count, seed=1)
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    return [tuple(tokenizer.encode(text).ids) for text in texts]


def _ours(modes: dict[Mode, ServiceMode]) -> list[Contestant]:
    return [
        Contestant(_REFERENCE, modes[Mode.AR]),
        Contestant("ssd, classic (sd)", modes[Mode.SD], searches=True),
        Contestant(OURS, modes[Mode.SSD]),
    ]


def _peers(
    formats: dict[str, Models], arguments: argparse.Namespace, stack: ExitStack
) -> list[Contestant]:
    contestants = []
    for name in arguments.peer:
        engine = SubprocessEngine(
            name,
            formats[name],
            python=arguments.peers_python,
            log=arguments.out / f"{name}.log",
        )
        stack.callback(engine.close)
        contestants.append(Contestant(f"{name}, plain", engine))
        contestants.append(Contestant(f"{name}, draft", engine, searches=True))
    return contestants


def _report(
    outcome: Outcome,
    plan: Plan,
    prompts: Sequence[tuple[int, ...]],
    pair: Pair,
    ours: ServiceMode,
) -> Report:
    """Prompts whose text ends early are nobody's: engines differ in whether the end counts."""
    measured = prompts[1 + plan.num_sweep_prompts :]
    by_prompt: dict[int, dict[str, Run]] = {}
    for run in outcome.runs:
        by_prompt.setdefault(run.prompt, {})[run.contestant] = run
    short = {
        number
        for number, runs in by_prompt.items()
        if len(runs[_REFERENCE].answer.token_ids) < plan.max_tokens
    }
    kept = tuple(run for run in outcome.runs if run.prompt not in short)
    judge = Judge(_SOURCE / "target")
    differences: list[Difference] = []
    for run in kept:
        reference = by_prompt[run.prompt][_REFERENCE].answer.token_ids
        found = judge.first_difference(
            run.contestant, run.prompt, measured[run.prompt], (reference, run.answer.token_ids)
        )
        differences += [found] if found else []
    return Report(
        plan=plan,
        outcome=Outcome(outcome.contestants, kept, outcome.sweeps),
        padding=str(pair),
        differences=differences,
        num_left_out=len(short),
        service=_service_figures(ours, kept),
    )


def _service_figures(ours: ServiceMode, kept: Sequence[Run]) -> dict[str, float]:
    """What the rounds of mode ssd say, warm-up included."""
    num_tokens = sum(len(run.answer.token_ids) for run in kept if run.contestant == OURS)
    figures = figures_of(ours.rounds, ours.growth, num_tokens=num_tokens)
    return {
        "verify_ms": figures.verify_ms,
        "wait_ms": figures.wait_ms,
        "hit_rate": figures.hit_rate,
        "acceptance": figures.num_accepted / max(figures.num_tested, 1),
        "nodes_per_round": figures.num_proposed / max(figures.num_rounds, 1),
        "tokens_per_round": 1 + figures.num_accepted / max(figures.num_rounds, 1),
    }


def _leave(report: Report, out: Path) -> None:
    (out / "peers.json").write_text(json.dumps(report.as_json(), indent=2) + "\n")
    report.draw(out / "peers.svg")
    (out / "peers.md").write_text(report.table() + "\n")
    print(report.table())
    for name, ratio in report.ratios.items():
        print(f"{name}: {ratio:.2f}")
    print("mode ssd:", ", ".join(f"{key} {value:.2f}" for key, value in report.service.items()))
    for difference in report.differences:
        print(difference)
    print(f"report: {out / 'peers.json'}, table and picture beside it")


if __name__ == "__main__":
    main()
