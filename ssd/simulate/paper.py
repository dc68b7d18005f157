"""The published figures of the paper, predicted: is the simulator right where the truth is known?

For each pair one number is free, the draft's acceptance. It is set so that plain decoding and
speculative decoding come out as published; speculative speculative decoding is then predicted and
compared. Source: arXiv 2603.03251, averages over its datasets, tokens/s, greedy, one request.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from ssd.core.growth import GrowthLimits
from ssd.core.mode import Mode
from ssd.simulate.costs import Costs
from ssd.simulate.scenario import Outcome, Scenario
from ssd.simulate.synthetic_text import SyntheticText
from ssd.simulate.world import simulate

LOOKAHEADS = range(4, 9)
_NUM_TOKENS = 4096
_BISECTIONS = 9


@dataclass(frozen=True, slots=True)
class Pair:
    """One target and draft of the paper; `sweep` is a reproduction's speed by lookahead."""

    name: str
    plain: float
    speculative: float
    published: float
    step_s: float
    glue_s: float
    assumed: tuple[str, ...]
    sweep: tuple[tuple[int, float], ...] = ()

    @property
    def costs(self) -> Costs:
        """A verification of a few rows costs what one token of plain decoding does."""
        return Costs(
            verify_s=1.0 / self.plain,
            verify_row_s=0.0,
            step_s=self.step_s,
            step_row_s=0.0,
            glue_s=self.glue_s,
        )


PAIRS = (
    Pair(
        "Llama 3 70B / 1B",
        plain=54.7,
        speculative=161.8,
        published=255.8,
        step_s=0.13 / 54.7,
        glue_s=2.83e-3,
        assumed=("a growth step is 0.13 of a verification", "glue as measured for Qwen3"),
    ),
    Pair(
        "Qwen3 32B / 0.6B",
        plain=88.8,
        speculative=136.8,
        published=203.8,
        step_s=2.54e-3,
        glue_s=2.83e-3,
        assumed=("a step of a chain costs what one of a tree does",),
        sweep=((4, 211.0), (5, 194.0), (6, 175.0), (7, 159.0)),
    ),
)
COMMON_ASSUMPTIONS = (
    "each mode runs at its own best lookahead",
    "half of the tokens that are not a draft's first candidate are its second, and so on",
    "glue is paid once a round, by a chain as by a tree",
    "no time on the network, and rows within a forward are free",
)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Tokens/s as published and as simulated. `is_fitted` marks what the acceptance was set by."""

    pair: str
    mode: str
    published: float
    simulated: float
    lookahead: int | None
    is_fitted: bool = False

    @property
    def error(self) -> float:
        """Relative to what was published."""
        return self.simulated / self.published - 1.0


def predict_paper(pairs: Sequence[Pair] = PAIRS) -> list[Prediction]:
    """Every published figure beside what the simulator says."""
    return [prediction for pair in pairs for prediction in _predict(pair)]


def acceptance_of(pair: Pair, *, num_tokens: int = _NUM_TOKENS) -> float:
    """The acceptance at which simulated speculative decoding is as fast as published.

    Its best lookahead is found with the mean length of a chain (Leviathan et al. 2023, eq. 1); the
    fit is then to the simulation itself, so that its luck with the text is in both modes alike.
    """

    def by_formula(acceptance: float, depth: int) -> float:
        tokens = (1.0 - acceptance ** (depth + 1)) / (1.0 - acceptance)
        return tokens / (depth * pair.step_s + pair.glue_s + pair.costs.verify_s)

    rough = _bisect(lambda each: max(by_formula(each, k) for k in LOOKAHEADS), pair.speculative)
    depth = max(LOOKAHEADS, key=lambda k: by_formula(rough, k))

    def simulated(acceptance: float) -> float:
        text = SyntheticText(acceptance)
        return run_pair(pair, text, Mode.SD, depth, num_tokens=num_tokens).tokens_per_s

    return _bisect(simulated, pair.speculative)


def _bisect(speed: Callable[[float], float], wanted: float) -> float:
    """The acceptance at which a speed that rises with it is as wanted."""
    low, high = 0.3, 0.99
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if speed(middle) < wanted else (low, middle)
    return (low + high) / 2


def _predict(pair: Pair) -> list[Prediction]:
    text = SyntheticText(acceptance_of(pair))

    @cache
    def ssd(depth: int) -> Outcome:
        return run_pair(pair, text, Mode.SSD, depth)

    plain = run_pair(pair, text, Mode.AR, 1).tokens_per_s
    sd_depth, sd_speed = _best(lambda depth: run_pair(pair, text, Mode.SD, depth))
    depth, speed = _best(ssd)
    return [
        Prediction(pair.name, "ar", pair.plain, plain, None, is_fitted=True),
        Prediction(pair.name, "sd", pair.speculative, sd_speed, sd_depth, is_fitted=True),
        Prediction(pair.name, "ssd", pair.published, speed, depth),
        *(
            Prediction(pair.name, f"ssd, lookahead {k}", published, ssd(k).tokens_per_s, k)
            for k, published in pair.sweep
        ),
    ]


def _best(run: Callable[[int], Outcome]) -> tuple[int, float]:
    """The lookahead with the most tokens/s, and how many."""
    speeds = {depth: run(depth).tokens_per_s for depth in LOOKAHEADS}
    best = max(speeds, key=lambda depth: speeds[depth])
    return best, speeds[best]


def run_pair(
    pair: Pair, text: SyntheticText, mode: Mode, lookahead: int, *, num_tokens: int = _NUM_TOKENS
) -> Outcome:
    """One request of the pair; mode `ssd` works in step, as the paper's implementation does."""
    growth = GrowthLimits(
        frontier=16,
        urgent_frontier=16,
        max_depth=2 * lookahead,
        min_step_reach=0.0,
        max_nodes=256,
        push_reach=0.0,
    )
    scenario = Scenario(
        pair.costs,
        text,
        mode,
        num_tokens=num_tokens,
        chain_depth=lookahead,
        max_nodes=lookahead,
        in_step=mode is Mode.SSD,
        growth=growth,
    )
    return simulate(scenario)
