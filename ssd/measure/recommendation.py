"""From figures to a sentence: what to run at one temperature, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ssd.core.mode import Mode
from ssd.measure.expected import chain_of, expected_speed_up
from ssd.measure.measurement import Measurement

_WORTHWHILE = 1.05
_RARELY, _DEAR, _IDLE, _WARM = 0.5, 0.3, 0.6, 0.7


@dataclass(frozen=True, slots=True)
class Compared:
    """A way beside plain decoding at the same temperature."""

    measured: Measurement
    speed_up: float
    expected: float | None
    step_share: float
    """A growth step, over a plain verification."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What pays best at one temperature; `best` is None where nothing does."""

    temperature: float
    plain: Measurement
    ways: tuple[Compared, ...]
    best: Compared | None
    words: str

    @property
    def came_in_bursts(self) -> bool:
        """Whether texts reached us so unevenly that the client's speeds say nothing."""
        every = (self.plain, *(way.measured for way in self.ways))
        return any(measured.came_in_bursts for measured in every)


def recommend(measured: Sequence[Measurement]) -> list[Recommendation]:
    """One recommendation for each temperature; every temperature has a measurement in mode ar."""
    temperatures = sorted({each.temperature for each in measured})
    return [
        _recommend([each for each in measured if each.temperature == temperature])
        for temperature in temperatures
    ]


def _recommend(measured: list[Measurement]) -> Recommendation:
    plain = next(each for each in measured if each.way.mode is Mode.AR)
    ways = tuple(_compare(each, plain, measured) for each in measured if each is not plain)
    fastest = max(ways, key=lambda each: each.speed_up, default=None)
    if fastest is None:
        words = "nothing was compared with plain decoding"
        return Recommendation(plain.temperature, plain, ways, None, words)
    if fastest.speed_up < _WORTHWHILE:
        because = "; ".join(_why_not(fastest))
        words = f"do not speculate here, because {because}"
        return Recommendation(plain.temperature, plain, ways, None, words)
    return Recommendation(plain.temperature, plain, ways, fastest, _what(fastest))


def _compare(way: Measurement, plain: Measurement, measured: list[Measurement]) -> Compared:
    return Compared(
        way,
        speed_up=way.tokens_per_s / plain.tokens_per_s if plain.tokens_per_s else 0.0,
        expected=expected_speed_up(way, plain=plain, chain=chain_of(way, measured)),
        step_share=way.step_s / plain.verify_s if plain.verify_s else 0.0,
    )


def _what(best: Compared) -> str:
    measured = best.measured
    depth = measured.useful_depth
    limits = f", max_depth {depth}" if depth else ""
    return (
        f"{measured.way}{limits}: {best.speed_up:.2f} times plain decoding,"
        f" {measured.tokens_per_round:.2f} tokens per round"
    )


def _why_not(best: Compared) -> Iterator[str]:
    """What keeps the best of the ways from paying, in figures."""
    measured = best.measured
    yield f"the best of it, {measured.way}, is {best.speed_up:.2f} times plain decoding"
    if not measured.tree_nodes:
        yield "nothing was drafted in time"
        return
    if measured.acceptance < _RARELY:
        yield f"of the drafts tested {measured.acceptance:.0%} are accepted"
    if measured.tokens_per_round < 2.0:
        yield f"a round brings {measured.tokens_per_round:.2f} tokens"
    if best.step_share > _DEAR:
        yield f"a growth step takes {best.step_share:.2f} of a verification"
    if measured.verify_share < _IDLE:
        yield f"the verifier verifies {measured.verify_share:.0%} of the time, else it waits"
    if best.expected is not None and best.expected >= _WORTHWHILE:
        yield f"its times promise {best.expected:.2f}: messages and other work take the rest"
    if measured.temperature > _WARM:
        yield f"a temperature of {measured.temperature:g} makes drafts guess less"
