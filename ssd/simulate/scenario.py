"""What is asked of a simulated pair, and what it answers."""

from dataclasses import dataclass, field

from ssd.core.growth import GrowthLimits
from ssd.core.mode import Mode
from ssd.simulate.costs import Costs
from ssd.simulate.synthetic_text import SyntheticText


@dataclass(frozen=True, slots=True)
class Scenario:
    """`num_sessions` texts at once, each of `num_tokens` tokens, on one verifier.

    `in_step` makes the verifier wait until its chain is `chain_depth` deep although the drafter
    grows ahead, which is how the paper's own implementation works; otherwise the price decides.
    `may_pause` lets sessions pause drafters that do not pay. All texts begin together and count
    until the last has ended, so of short texts one that was unlucky, and paused, decides the speed.
    """

    costs: Costs
    text: SyntheticText
    mode: Mode = Mode.SSD
    num_sessions: int = 1
    num_drafters: int = 1
    num_tokens: int = 512
    chain_depth: int = 4
    max_nodes: int = 12
    in_step: bool = False
    may_pause: bool = True
    growth: GrowthLimits = field(default_factory=GrowthLimits)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the pair did. `tokens_per_s` counts all sessions; `hit_rate` is None without drafts."""

    tokens_per_s: float
    tokens_per_round: float
    hit_rate: float | None
    verifier_busy: float
    num_rounds: int
