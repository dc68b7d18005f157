"""The pair that a benchmark runs: padded to a cost ratio, written to a folder, measured.

A wider MLP costs in proportion, so two widths of each model tell which one is wanted; the result is
measured once more, draft and target in turns, and corrected while it misses.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from ssd.bench.rows import prompt_rows, tree_rows
from ssd.bench.timing import seconds_in_turns, use_threads
from ssd.core.ids import KvId
from ssd.core.rows import RowGroup, Runner
from ssd.core.sampling_params import SamplingParams
from ssd.engine.engine_thread import run_like_engine
from ssd.engine.loading import load_model
from ssd.engine.padding import pad_width
from ssd.sampling import DrawSpec, rank_candidates, target_token_ids
from ssd.service_bench.regime import ROWS, Cost, Goal, Widths

_GREEDY = SamplingParams(temperature=0.0)
_KV_ID = KvId("calibration")
_TEXT = 192  # tokens before the rows
_CANDIDATES = 6
_TURNS = 7
_REPEATS = 3
_STEP = 64  # what widths are rounded to
_PROBES = {"target": (4096, 12288), "draft": (1024, 8192)}
_TRIES = 6
_FURTHEST = 3.0  # a guess goes no further than this many times the widest that was measured


@dataclass(frozen=True, slots=True)
class Pair:
    """Folders of a target and a draft, and what they cost; widths are None where not padded."""

    target: Path
    draft: Path
    cost: Cost
    widths: Widths | None

    def __str__(self) -> str:
        cost = self.cost
        return (
            f"widths {self.widths}: a verification of {ROWS} rows {cost.verify_ms:.1f} ms,"
            f" a draft step {cost.draft_step_ms:.2f} ms, ratio {cost.ratio:.3f}"
        )


def _is_in_range(cost: Cost) -> bool:
    return 15.0 <= cost.verify_ms <= 30.0


def _is_met(cost: Cost, goal: Goal) -> bool:
    return _is_in_range(cost) and abs(cost.ratio - goal.ratio) <= goal.tolerance


class PairShop:
    """Widens models, writes and measures them; what it writes goes into `folder`."""

    def __init__(self, target: Path, draft: Path, folder: Path, *, dtype: str, core: int | None):
        """`dtype` is the target's; measurements run on `core`."""
        self._sources = {"target": target, "draft": draft}
        self._folder = folder
        self._dtype, self._core = dtype, core
        self._spent: dict[str, dict[int, float]] = {"target": {}, "draft": {}}  # ms by width

    def plain(self) -> Pair:
        """The models as they are."""
        target, draft = self._sources["target"], self._sources["draft"]
        return Pair(target, draft, self._cost(target, draft), None)

    def padded(self, widths: Widths) -> Pair:
        """Raises ModelRefused or ConfigError where a model cannot be widened to that."""
        target = self._made("target", widths.target)
        draft = self._made("draft", widths.draft)
        return Pair(target, draft, self._cost(target, draft), widths)

    def padded_to(self, goal: Goal, report: Callable[[str], None]) -> Pair:
        """As near the goal as a few tries come; each is reported."""
        for role, probes in _PROBES.items():
            for width in probes:
                self._spent[role][width] = self._alone_ms(role, width)
        verify_ms, made = goal.verify_ms, self.plain()
        for _ in range(_TRIES):
            target = self._width_for("target", verify_ms)
            made = self.padded(Widths(target, self._width_for("draft", goal.ratio * verify_ms)))
            report(str(made))
            if _is_met(made.cost, goal):
                return made
            self._spent["target"][target] = made.cost.verify_ms
            assert made.widths is not None
            self._spent["draft"][made.widths.draft] = made.cost.draft_step_ms
            verify_ms = made.cost.verify_ms if _is_in_range(made.cost) else goal.verify_ms
        report(f"not what was asked for, {goal.ratio:g}; the machine may be busy")
        return made

    def _width_for(self, role: str, wanted_ms: float) -> int:
        """By the straight line through the two measured widths that lie nearest around."""
        points = sorted(self._spent[role].items())
        above = next((index for index, (_, ms) in enumerate(points) if ms >= wanted_ms), None)
        last = min(max(above if above is not None else len(points) - 1, 1), len(points) - 1)
        (width_0, ms_0), (width_1, ms_1) = points[last - 1], points[last]
        slope = max((ms_1 - ms_0) / (width_1 - width_0), 1e-6)
        width = min(width_0 + (wanted_ms - ms_0) / slope, _FURTHEST * points[-1][0])
        least = _width_of(self._sources[role])
        return max(round(width / _STEP) * _STEP, least)

    def _alone_ms(self, role: str, width: int) -> float:
        """Of one model, without the other in turns."""
        dtype, work = ("fp32", _draft_step) if role == "draft" else (self._dtype, _verification)
        return _seconds([(self._made(role, width), dtype, work)], core=self._core)[0] * 1e3

    def _cost(self, target: Path, draft: Path) -> Cost:
        works = [(target, self._dtype, _verification), (draft, "fp32", _draft_step)]
        verify_s, step_s = _seconds(works, core=self._core)
        return Cost(verify_s * 1e3, step_s * 1e3)

    def _made(self, role: str, width: int) -> Path:
        """A folder like the source, with wider MLPs; its weights as the checkpoint stores them."""
        path = self._folder / f"{role}-{width}"
        if not path.exists():
            source = self._sources[role]
            disable_progress_bar()  # what takes long here is measuring
            model = AutoModelForCausalLM.from_pretrained(
                source, dtype="auto", local_files_only=True
            )
            pad_width(model, width)
            model.save_pretrained(path)
            for each in source.glob("*.json"):  # tokenizer and its settings
                if not (path / each.name).exists():
                    shutil.copy(each, path)
        return path


def _width_of(source: Path) -> int:
    config: Any = AutoConfig.from_pretrained(source, local_files_only=True)
    return int(config.intermediate_size)


_Work = Callable[[Runner[torch.Tensor], RowGroup], object]


def _seconds(works: Sequence[tuple[Path, str, _Work]], *, core: int | None) -> list[float]:
    """Seconds of each on one thread, pinned as an engine is, in turns."""

    def measure() -> list[float]:
        ready = [_ready(path, dtype, work) for path, dtype, work in works]
        medians = [seconds_in_turns(ready, turns=_TURNS) for _ in range(_REPEATS)]
        return [min(each) for each in zip(*medians, strict=True)]  # others can only disturb

    return run_like_engine(measure, core=core, num_threads=1)


def _ready(path: Path, dtype: str, work: _Work) -> Callable[[], object]:
    use_threads(1)
    runner = load_model(str(path), dtype=dtype).runner
    runner.forward([prompt_rows(_KV_ID, 0, _TEXT)])
    num_rows = ROWS if work is _verification else 1
    rows = tree_rows(_KV_ID, past_len=_TEXT, num_nodes=num_rows)
    return lambda: work(runner, rows)


def _verification(runner: Runner[torch.Tensor], rows: RowGroup) -> object:
    """The forward and the greedy draw, as a round of mode `ssd` has them."""
    draws = [DrawSpec(_GREEDY, position + 1, None) for position in rows.positions]
    return target_token_ids(runner.forward([rows]), draws)


def _draft_step(runner: Runner[torch.Tensor], rows: RowGroup) -> object:
    """The forward and the ranking of candidates."""
    draws = [DrawSpec(_GREEDY, position + 1, None) for position in rows.positions]
    return rank_candidates(runner.forward([rows]), draws, num_candidates=_CANDIDATES)
