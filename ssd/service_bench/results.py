"""A race's figures, as the report of `ssd bench` has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from ssd.core.rounds import overlap_of
from ssd.core.rule import Rule
from ssd.service_bench.block import Figures, Run, figures_of
from ssd.service_bench.race import Lane, Outcome, Plan, median_ratio
from ssd.service_bench.regime import Cost, Regime, Widths

_SECONDS_PER_HOUR = 3600.0
_EXACT = ("fp32", "fp64")
_RATIOS = (
    ("ssd", "sd"),
    ("ssd", "ar"),
    ("sd", "ar"),
    ("ssd", "sd_tree"),
    ("sd_tree", "sd"),
    ("ssd", "sd2"),
    ("ssd", "ar2"),
)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all lanes of a race share."""

    pair: str
    regime: Regime
    workload: str
    dtype: str
    cost: Cost
    widths: Widths | None
    plan: Plan
    gpu_hour_price: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One contender with so many sessions."""

    lane: Lane
    figures: Figures
    num_same: int | None
    """Texts equal to the first contender's; None where they are drawn by rule `ratio`."""
    must_be_same: bool
    """Elsewhere a near-tie may be rounded either way."""

    @property
    def num_texts(self) -> int:
        return len(_runs(self.lane))

    @property
    def identical(self) -> bool | None:
        """None where texts need not be."""
        return self.num_same == self.num_texts if self.must_be_same else None

    @property
    def name(self) -> str:
        return self.lane.contender.name

    @property
    def speeds(self) -> list[float]:
        return [block.tokens_per_s for block in self.lane.blocks]

    @property
    def tokens_per_s(self) -> float:
        return median(self.speeds)

    @property
    def spread(self) -> tuple[float, float]:
        """First and third quartile over the blocks."""
        if len(self.speeds) < 2:
            return self.speeds[0], self.speeds[0]
        lower, _, upper = quantiles(self.speeds, n=4, method="inclusive")
        return lower, upper

    @property
    def tokens_per_s_per_device(self) -> float:
        return self.tokens_per_s / self.lane.contender.num_devices

    def price_per_million(self, gpu_hour_price: float) -> float:
        """Of a million tokens, all devices together."""
        speed = self.tokens_per_s_per_device
        return gpu_hour_price / (speed * _SECONDS_PER_HOUR) * 1e6 if speed > 0 else 0.0


def results_of(outcome: Outcome, plan: Plan, *, dtype: str) -> list[Result]:
    """In the order of the lanes; `dtype` is the target's."""
    is_comparable = plan.rule is Rule.COUPLED or plan.temperature == 0
    reference: dict[str, tuple[int, ...]] = {}
    for run in (run for lane in outcome.lanes for run in _runs(lane)):
        reference.setdefault(run.prompt, run.token_ids)
    return [
        Result(
            lane,
            figures_of(lane.blocks, _useful_overlap),
            sum(run.token_ids == reference[run.prompt] for run in _runs(lane))
            if is_comparable
            else None,
            must_be_same=is_comparable and dtype in _EXACT,
        )
        for lane in outcome.lanes
    ]


def ratios_of(results: Sequence[Result], sessions: int) -> dict[str, float]:
    """Medians of the blocks' ratios, of what ran with so many sessions."""
    lanes = {each.name: each.lane for each in results if each.lane.sessions == sessions}
    found = {
        f"{above}_over_{below}": median_ratio(lanes[above], lanes[below])
        for above, below in _RATIOS
        if above in lanes and below in lanes
    }
    for name, lane in lanes.items():
        base, plus, _ = name.partition("+")
        if plus and base in lanes:
            found[f"{name}_over_{base}"] = median_ratio(lane, lanes[base])
    return found


def as_json(conditions: Conditions, outcome: Outcome, results: Sequence[Result]) -> dict[str, Any]:
    """The report: `results`, `ratios` at the fewest sessions, and what they depend on."""
    sessions = sorted({each.lane.sessions for each in results})
    return {
        "pair": conditions.pair,
        "workload": conditions.workload,
        "reference": results[0].name,
        "calibration": {
            "widths": None if conditions.widths is None else str(conditions.widths),
            "verify_ms": conditions.cost.verify_ms,
            "draft_step_ms": conditions.cost.draft_step_ms,
            "ratio": conditions.cost.ratio,
        },
        "blocks": len(outcome.lanes[0].blocks),
        "prompts": conditions.plan.num_prompts,
        "max_tokens": conditions.plan.max_tokens,
        "sweeps": {name: dict(speeds) for name, speeds in outcome.sweeps.items()},
        "results": [_result_json(each, conditions) for each in results],
        "ratios": ratios_of(results, sessions[0]),
        "ratios_by_sessions": {str(each): ratios_of(results, each) for each in sessions},
    }


def _result_json(result: Result, conditions: Conditions) -> Mapping[str, Any]:
    figures, contender = result.figures, result.lane.contender
    price = conditions.gpu_hour_price
    return {
        "mode": result.name,
        "regime": conditions.regime.value,
        "padded": conditions.widths is not None,
        "dtype": conditions.dtype,
        "rule": conditions.plan.rule.value,
        "temperature": conditions.plan.temperature,
        "sessions": result.lane.sessions,
        "depth": contender.depth,
        "settings": dict(contender.setup.settings),
        "tokens_per_s": result.tokens_per_s,
        "tokens_per_s_spread": list(result.spread),
        "tokens_per_s_of_blocks": result.speeds,
        "tokens_per_round": figures.tokens_per_round,
        "acceptance": figures.acceptance,
        "hit_rate": figures.hit_rate,
        "miss": figures.misses,
        "verify_ms": figures.verify_ms,
        "draft_step_ms": figures.draft_step_ms,
        "wait_ms": figures.wait_ms,
        "gap_ms": figures.gap_ms,
        "hit_gap_ms": figures.hit_gap_ms,
        "nodes_per_round": figures.nodes_per_round,
        "steps_per_round": figures.steps_per_round,
        "rows_per_step": figures.rows_per_step,
        "verifier_busy": figures.busy,
        "useful_overlap": figures.useful_overlap,
        "tokens_per_s_per_device": result.tokens_per_s_per_device,
        "price_per_million_tokens": None if price is None else result.price_per_million(price),
        "identical": result.identical,
        "texts": result.num_texts,
        "texts_same": result.num_same,
    }


def _runs(lane: Lane) -> list[Run]:
    return [run for block in lane.blocks for run in block.runs]


def _useful_overlap(run: Run) -> float:
    verified = {step for each in run.rounds for step in each.verified_steps}
    return overlap_of(run.rounds, [span for span in run.growth if span.step in verified])
