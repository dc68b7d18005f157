"""What the rules gain and cost: coupled and ratio, as chains and trees, at four temperatures.

    python -m benchmarks.rules measure chain        one service per setting, a minute or so each
    python -m benchmarks.rules measure tree
    python -m benchmarks.rules measure saguaro
    python -m benchmarks.rules show                 the table and the picture of docs/rules.md

Figures are kept in benchmarks/results/rules.json and added up over prompts; each command replaces
its own. Distinct prompts, one request at a time, a warm-up first, the pair `pystd` in mode `ssd`.
The constants of the sweep get one seed, the rows of the table two.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from ssd.cli.serve import is_serving
from ssd.client import Client, Options
from ssd.cluster.local_service import local_service
from ssd.config import load_config
from ssd.core.mode import Mode
from ssd.core.rounds import RoundRecord
from ssd.core.rule import Rule

mpl.use("Agg")

CHECKOUT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results" / "rules.json"
PICTURE = CHECKOUT / "docs" / "images" / "rules.png"
TEMPERATURES = (0.0, 0.3, 0.6, 1.0)
MAX_TOKENS = 192
READY_S = 120.0
DEPTHS = 3  # shown of acceptance per depth
PROMPTS = (
    "import os\nimport sys\n\n\ndef main(argv=None):\n",
    "class Queue:\n    '''A queue for threads.'''\n\n    def __init__(self, maxsize=0):\n",
    "def parse_header(line):\n    '''Split a header line into its name and parameters.'''\n",
    "class TestCase(unittest.TestCase):\n\n    def test_copy(self):\n",
    "    try:\n        value = self._cache[key]\n    except KeyError:\n",
    "def walk(top, topdown=True, onerror=None):\n",
)


@dataclass(frozen=True)
class Setting:
    """A drafter's settings, and the rules that are measured with them."""

    shape: str
    siblings: int | None
    saguaro: float
    rules: tuple[Rule, ...]
    seeds: tuple[int, ...] = (7, 8)


@dataclass(frozen=True)
class Row:
    """One rule, shape and temperature; counts are sums over all prompts."""

    rule: str
    shape: str
    saguaro: float
    temperature: float
    num_tokens: int
    num_rounds: int
    num_hits: int
    num_lookups: int
    num_not_listed: int
    accepted_at_depth: list[int]
    tested_at_depth: list[int]
    seconds: float

    @property
    def name(self) -> str:
        return self.rule if self.rule == "coupled" else f"{self.rule}, C = {self.saguaro:g}"

    @property
    def tokens_per_round(self) -> float:
        return self.num_tokens / self.num_rounds

    @property
    def tokens_per_s(self) -> float:
        return self.num_tokens / self.seconds

    @property
    def hit_rate(self) -> float:
        return self.num_hits / max(self.num_lookups, 1)

    @property
    def listed(self) -> float:
        """Of the commits, the share whose last token the drafter had not failed to list: what the
        hit rate would be with a drafter that is never late."""
        return 1.0 - self.num_not_listed / max(self.num_lookups, 1)

    def acceptance(self, depth: int) -> float | None:
        """Of the rounds that reached this depth with something to test, the share that accepted."""
        if depth > len(self.tested_at_depth) or not self.tested_at_depth[depth - 1]:
            return None
        return self.accepted_at_depth[depth - 1] / self.tested_at_depth[depth - 1]


BOTH, RATIO = (Rule.COUPLED, Rule.RATIO), (Rule.RATIO,)
SETTINGS = {
    "chain": [Setting("chain", 1, 1.0, BOTH)],
    "tree": [Setting("tree", None, 1.0, (Rule.COUPLED,)), Setting("tree", 2, 1.0, RATIO)],
    "saguaro": [
        Setting(shape, siblings, constant, RATIO, seeds=(7,))
        for constant in (0.75, 0.5, 0.25)
        for shape, siblings in (("chain", 1), ("tree", 2))
    ],
}


def measure(part: str) -> None:
    """Run a part's services one after the other and keep their rows."""
    RESULTS.parent.mkdir(exist_ok=True)
    for setting in SETTINGS[part]:
        rows = list(_measured(setting))
        known = {_key(row): row for row in _read()} | {_key(row): row for row in rows}
        RESULTS.write_text(json.dumps([asdict(row) for row in known.values()], indent=1) + "\n")


def _key(row: Row) -> tuple[object, ...]:
    return row.rule, row.shape, row.saguaro, row.temperature


def _read() -> list[Row]:
    return [Row(**row) for row in json.loads(RESULTS.read_text())] if RESULTS.exists() else []


def _measured(setting: Setting) -> Iterable[Row]:
    overrides = {
        "models.target": "pystd",
        "coordinator.port": 0,
        "logging.level": "error",
        "drafter.siblings": setting.siblings,
        "drafter.saguaro": setting.saguaro,
    }
    config = load_config(file=None, environment={}, overrides=overrides).config
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,
        local_service(config, run_dir=Path(folder), report=lambda line: None) as service,
    ):
        service.wait_until(
            lambda: is_serving(service.address, num_workers=len(service.workers)),
            deadline_s=READY_S,
        )
        with Client(service.address) as client:
            for temperature in TEMPERATURES[setting.saguaro < 1.0 :]:  # greedy draws know no C
                for rule in setting.rules:
                    _ask(client, PROMPTS[0], rule, temperature, 1)  # warms up, and learns the rates
                    row = _row(client, setting, rule, temperature)
                    print(_line(_cells(row)), flush=True)
                    yield row


def _row(client: Client, setting: Setting, rule: Rule, temperature: float) -> Row:
    asked = [
        _ask(client, prompt, rule, temperature, seed)
        for seed in setting.seeds
        for prompt in PROMPTS
    ]
    rounds = [each for answer in asked for each in answer.rounds]
    deepest = max(each.num_tested for each in rounds)
    depths = range(1, deepest + 1)
    lookups = [each.lookup.value for each in rounds if each.lookup.value != "last"]
    return Row(
        rule=rule.value,
        shape=setting.shape,
        saguaro=setting.saguaro if rule is Rule.RATIO else 1.0,
        temperature=temperature,
        num_tokens=sum(each.num_tokens for each in asked),
        num_rounds=len(rounds),
        num_hits=lookups.count("hit"),
        num_lookups=len(lookups),
        num_not_listed=lookups.count("key"),
        accepted_at_depth=[sum(each.num_accepted >= depth for each in rounds) for depth in depths],
        tested_at_depth=[sum(each.num_tested >= depth for each in rounds) for depth in depths],
        seconds=sum(each.seconds for each in asked),
    )


@dataclass(frozen=True)
class _Answer:
    rounds: Sequence[RoundRecord]
    num_tokens: int
    seconds: float


def _ask(client: Client, prompt: str, rule: Rule, temperature: float, seed: int) -> _Answer:
    options = Options(
        max_tokens=MAX_TOKENS,
        temperature=temperature,
        seed=seed,
        mode=Mode.SSD,
        rule=rule,
        ignore_eos=True,
        include_rounds=True,
    )
    arrivals: list[float] = []
    generation = client.generate(prompt, options)
    first_tokens = 0
    for piece in generation:
        if piece.token_ids:
            arrivals.append(time.perf_counter())
            first_tokens = first_tokens or len(piece.token_ids)
    num_tokens = generation.completion.num_completion_tokens - first_tokens
    return _Answer(generation.completion.rounds, num_tokens, arrivals[-1] - arrivals[0])


# ── table and picture ─────────────────────────────────────────────────────────────────────────


def chosen_rows(rows: Sequence[Row]) -> list[Row]:
    """Per shape and temperature: coupled, ratio with C = 1, and the fastest other C."""
    chosen = []
    for temperature in TEMPERATURES:
        for shape in ("chain", "tree"):
            here = [row for row in rows if (row.shape, row.temperature) == (shape, temperature)]
            plain = [row for row in here if row.saguaro == 1.0]
            others = [row for row in here if row.saguaro != 1.0]
            chosen += sorted(plain, key=lambda row: row.rule)
            if others:
                chosen.append(max(others, key=lambda row: row.tokens_per_s))
    return chosen


def table(rows: Sequence[Row]) -> str:
    """The table of docs/rules.md."""
    head = ["T", "rule", "shape", *(f"depth {depth}" for depth in range(1, DEPTHS + 1))]
    head += ["hit rate", "listed", "tokens/round", "tokens/s"]
    return "\n".join(
        [_line(head), _line(["---"] * len(head)), *(_line(_cells(row)) for row in rows)]
    )


def _cells(row: Row) -> list[str]:
    depths = [row.acceptance(depth) for depth in range(1, DEPTHS + 1)]
    return [
        f"{row.temperature:g}",
        row.name,
        row.shape,
        *("" if share is None else f"{share:.2f}" for share in depths),
        f"{row.hit_rate:.2f}",
        f"{row.listed:.2f}",
        f"{row.tokens_per_round:.2f}",
        f"{row.tokens_per_s:.0f}",
    ]


def every_constant(rows: Sequence[Row]) -> str:
    """The sweep over C: tokens/s and hit rate by shape and temperature."""
    constants = sorted({row.saguaro for row in rows}, reverse=True)
    head = ["T", "shape", *(f"C = {constant:g}" for constant in constants)]
    lines = [_line(head), _line(["---"] * len(head))]
    sampled = [row for row in rows if row.rule == Rule.RATIO and row.temperature > 0.0]
    for temperature, shape in product(TEMPERATURES[1:], ("chain", "tree")):
        here = {
            row.saguaro: f"{row.tokens_per_s:.0f} ({row.tokens_per_round:.2f}, {row.hit_rate:.2f})"
            for row in sampled
            if (row.shape, row.temperature) == (shape, temperature)
        }
        lines.append(_line([f"{temperature:g}", shape, *(here.get(c, "") for c in constants)]))
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def draw(rows: Sequence[Row]) -> None:
    """Hit rate, acceptance at depth 1, tokens per round and tokens/s over the temperature."""
    panels = (
        ("acceptance at depth 1", lambda row: row.acceptance(1)),
        ("hit rate", lambda row: row.hit_rate),
        ("tokens per round", lambda row: row.tokens_per_round),
        ("tokens/s", lambda row: row.tokens_per_s),
    )
    figure, axes = plt.subplots(1, len(panels), figsize=(15, 3.8), constrained_layout=True)
    kinds = {"coupled": "tab:blue", "ratio, C = 1": "tab:orange", "ratio, best C": "tab:green"}
    for axis, (title, value) in zip(axes, panels, strict=True):
        for kind, colour in kinds.items():
            for shape, style in (("chain", "--"), ("tree", "-")):
                points = [row for row in rows if row.shape == shape and _kind(row) == kind]
                axis.plot(
                    [row.temperature for row in points],
                    [value(row) for row in points],
                    style,
                    color=colour,
                    marker="o",
                    label=f"{kind}, {shape}",
                )
        axis.set_title(title)
        axis.set_xlabel("temperature")
        axis.set_xticks(TEMPERATURES)
        axis.set_ylim(bottom=0.0)
    axes[0].legend(fontsize="small")
    figure.savefig(PICTURE, dpi=110)


def _kind(row: Row) -> str:
    return row.name if row.saguaro == 1.0 else "ratio, best C"


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the rules; see the head of this file.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("measure").add_argument("part", choices=sorted(SETTINGS))
    commands.add_parser("show")
    arguments = parser.parse_args()
    if arguments.command == "measure":
        measure(arguments.part)
    else:
        rows = _read()
        draw(chosen_rows(rows))
        print(table(chosen_rows(rows)))
        print("\ntokens/s (tokens per round, hit rate) by Saguaro's constant\n")
        print(every_constant(rows))


if __name__ == "__main__":
    main()
