"""The speed-up that a way should have, by the simulator, from the times that were measured.

Where it is well above the measured one, something that the simulator does not know takes the rest:
processes that share cores, messages that wait for them.
"""

from ssd.core.mode import Mode
from ssd.measure.measurement import Measurement
from ssd.simulate import Costs, Scenario, SyntheticText, simulate

_GLUE_S, _DELAY_S = 0.3e-3, 0.2e-3  # the defaults of `ssd simulate`
_NUM_TOKENS = 512
_LEAST_S = 1e-6


def expected_speed_up(way: Measurement, *, plain: Measurement, chain: Measurement) -> float | None:
    """`chain` is the same drafter in mode `sd`, whose acceptance is that of first candidates.

    None where the way drafted nothing.
    """
    if not way.tree_nodes or not way.step_s:
        return None
    scenario = Scenario(
        _costs(way, plain),
        SyntheticText(min(max(chain.acceptance, 0.01), 0.99)),
        way.way.mode,
        num_tokens=_NUM_TOKENS,
        chain_depth=max(chain.tree_depth, 1),
        max_nodes=max(way.tree_nodes, 1),
    )
    plainly = plain.verify_s + plain.between_s
    return simulate(scenario).tokens_per_s * plainly


def _costs(way: Measurement, plain: Measurement) -> Costs:
    """The straight line through the bare and the drafted rounds, never falling."""
    slope = 0.0
    if way.rows > plain.rows:
        slope = max(way.verify_s - plain.verify_s, 0.0) / (way.rows - plain.rows)
    return Costs(
        verify_s=max(plain.verify_s - slope * plain.rows, _LEAST_S),
        verify_row_s=slope,
        step_s=max(way.step_s, _LEAST_S),
        step_row_s=0.0,
        glue_s=_GLUE_S,
        overhead_s=plain.between_s,
        delay_s=_DELAY_S,
    )


def chain_of(way: Measurement, measured: list[Measurement]) -> Measurement:
    """The measurement of the same drafter and temperature in mode `sd`, or the way itself."""
    for each in measured:
        same = (each.way.drafter, each.temperature) == (way.way.drafter, way.temperature)
        if same and each.way.mode is Mode.SD:
            return each
    return way
