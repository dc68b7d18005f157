"""From two placed models to the speed of every mode, by the simulator that `ssd simulate` runs."""

from dataclasses import dataclass, replace

from ssd.advise.expectation import expected_tokens
from ssd.advise.placement import PlacedModel
from ssd.core.mode import Mode
from ssd.simulate import Costs, Outcome, Scenario, SyntheticText, simulate

# What a round costs beside its forwards, on one machine; the defaults of `ssd simulate`.
GLUE_S, OVERHEAD_S, DELAY_S = 0.3e-3, 0.5e-3, 0.2e-3
_DEPTHS = range(1, 9)
_FRONTIER = 8  # nodes of a growth step, over all sessions
_TOKENS_IN_ALL, _TOKENS_AT_LEAST, _TOKENS_AT_MOST = 2048, 24, 1024


@dataclass(frozen=True, slots=True)
class Speed:
    """One mode: what it makes of a second, and the devices it takes."""

    mode: Mode
    tokens_per_s: float
    tokens_per_round: float
    hit_rate: float | None
    num_devices: int

    @property
    def per_device(self) -> float:
        return self.tokens_per_s / self.num_devices

    def price_per_million(self, gpu_hour_price: float) -> float:
        """Of tokens, when every device costs so much an hour and never stands idle."""
        return gpu_hour_price * self.num_devices / 3600.0 / self.tokens_per_s * 1e6


def forward_costs(target: PlacedModel, draft: PlacedModel, *, max_nodes: int) -> Costs:
    """The straight lines through a bare forward and a full one, of either model."""
    batch = target.batch
    verify_s, verify_row_s = _line(target, batch, batch * (1 + max_nodes), num_texts=batch)
    num_texts = min(batch, _FRONTIER)
    step_s, step_row_s = _line(draft, 1, _FRONTIER, num_texts=num_texts)
    return Costs(
        verify_s=verify_s,
        verify_row_s=verify_row_s,
        step_s=step_s,
        step_row_s=step_row_s,
        glue_s=GLUE_S,
        overhead_s=OVERHEAD_S,
        delay_s=DELAY_S,
    )


def plain_speed(target: PlacedModel) -> Speed:
    """Plain decoding, which needs no simulation: every text gets one token a round."""
    seconds = target.forward_s(num_rows=target.batch, num_texts=target.batch) + OVERHEAD_S
    return Speed(Mode.AR, target.batch / seconds, 1.0, None, target.num_devices)


def drafted_speeds(
    target: PlacedModel, draft: PlacedModel, *, acceptance: float, max_nodes: int
) -> tuple[Speed, Speed, int]:
    """Modes `sd`, with its best depth, and `ssd`; and that depth."""
    costs = forward_costs(target, draft, max_nodes=max_nodes)
    depth = best_depth(costs, acceptance, batch=target.batch)
    tokens = min(max(_TOKENS_IN_ALL // target.batch, _TOKENS_AT_LEAST), _TOKENS_AT_MOST)
    scenario = Scenario(
        costs,
        SyntheticText(acceptance),
        num_sessions=target.batch,
        num_tokens=tokens,
        chain_depth=depth,
        max_nodes=max_nodes,
        may_pause=False,
    )
    num_devices = target.num_devices + draft.num_devices
    sd, ssd = (
        _speed(mode, simulate(replace(scenario, mode=mode)), num_devices)
        for mode in (Mode.SD, Mode.SSD)
    )
    return sd, ssd, depth


def best_depth(costs: Costs, acceptance: float, *, batch: int = 1) -> int:
    """The length of chain at which classic speculative decoding is fastest."""

    def speed(depth: int) -> float:
        verify_s = costs.verification_s(batch * (depth + 1)) + costs.overhead_s + costs.glue_s
        draft_s = depth * costs.growth_step_s(batch) + 2 * costs.delay_s
        return expected_tokens(acceptance, depth) / (verify_s + draft_s)

    return max(_DEPTHS, key=speed)


def _line(model: PlacedModel, few: int, many: int, *, num_texts: int) -> tuple[float, float]:
    low = model.forward_s(num_rows=few, num_texts=num_texts)
    high = model.forward_s(num_rows=many, num_texts=num_texts)
    slope = (high - low) / (many - few)
    return low - slope * few, slope


def _speed(mode: Mode, outcome: Outcome, num_devices: int) -> Speed:
    return Speed(
        mode, outcome.tokens_per_s, outcome.tokens_per_round, outcome.hit_rate, num_devices
    )
