"""The measurements of `ssd bench engine`. To add one: a function here, and its line below."""

from collections.abc import Callable
from dataclasses import dataclass

from ssd.bench.draws import draw_of_a_tree
from ssd.bench.figure import Figure
from ssd.bench.forwards import (
    long_text_forward,
    many_sessions_forward,
    padded_target_forward,
    tree_forward,
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A function that measures, known by a name that the command takes."""

    name: str
    run: Callable[[], list[Figure]]

    @property
    def summary(self) -> str:
        return (self.run.__doc__ or "").strip().splitlines()[0]


ENGINE_MEASUREMENTS = (
    Measurement("tree", tree_forward),
    Measurement("padded", padded_target_forward),
    Measurement("long-text", long_text_forward),
    Measurement("sessions", many_sessions_forward),
    Measurement("draws", draw_of_a_tree),
)
