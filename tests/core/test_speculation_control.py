"""When a session stops asking a drafter, and when it asks again."""

import random

import pytest

from ssd.core.drafter_kind import DrafterKind, DrafterState
from ssd.core.errors import ConfigError
from ssd.core.expansion import Expansion
from ssd.core.ids import PrefixKey
from ssd.core.source_rates import SourceRates
from ssd.core.speculation_control import ControlLimits, SessionControl, Spending

MODEL, NGRAM = DrafterKind.MODEL, DrafterKind.NGRAM
LIMITS = ControlLimits()


class Life:
    """One session, played round by round with a drafter that is right with a given chance."""

    def __init__(self, limits: ControlLimits = LIMITS, *, seed: int = 1) -> None:
        self.control, self.rates = SessionControl(limits), SourceRates()
        self.control.meet(MODEL)
        self.num_rounds = 0
        self.states: list[DrafterState] = []
        self._rng = random.Random(seed)

    def play(self, num_rounds: int, *, chance: float, row_price: float = 0.05) -> None:
        for _ in range(num_rounds):
            self.num_rounds += 1
            state = self.control.states[MODEL]
            self.states.append(state)
            if state is not DrafterState.PAUSED:
                is_right = self._rng.random() < chance
                expansion = Expansion(PrefixKey(self.num_rounds), self.num_rounds, (4,), (0.8,))
                token_id = 4 if is_right else 5
                self.control.saw(expansion, token_id, self.rates)
                self.rates.record(expansion, token_id)
                price = 6 * row_price
                self.control.round_over([Spending(MODEL, 6, int(is_right), price)])
            self.control.decide()

    @property
    def is_paused(self) -> bool:
        return self.control.is_paused(MODEL)


def test_an_adversary_is_paused_within_32_rounds_and_probed_from_then_on() -> None:
    life = Life()
    life.play(32, chance=0.0)
    assert life.is_paused
    life.play(500, chance=0.0)
    num_probes = life.control.num_probes_of(MODEL)
    assert 2 <= num_probes <= 4, "each pause is longer than the last, up to four times"
    asked = sum(state is not DrafterState.PAUSED for state in life.states[32:])
    assert asked < 0.1 * 500, "probes are few rounds"


@pytest.mark.parametrize("seed", range(20))
def test_a_good_drafter_is_back_within_five_probes(seed: int) -> None:
    life = Life(seed=seed)
    life.play(100, chance=0.0)
    before = life.control.num_probes_of(MODEL)
    while life.control.states[MODEL] is not DrafterState.ACTIVE:
        life.play(1, chance=0.75)
        assert life.control.num_probes_of(MODEL) - before <= 5
    life.play(200, chance=0.75)
    assert not life.is_paused


@pytest.mark.parametrize(
    ("chance", "row_price", "is_paused"),
    [(0.8, 0.05, False), (0.4, 0.02, False), (0.4, 0.15, True), (0.05, 0.0, True)],
)
def test_prices_decide_what_an_acceptance_is_worth(
    chance: float, row_price: float, is_paused: bool
) -> None:
    life = Life()
    life.play(60, chance=chance, row_price=row_price)
    assert (DrafterState.PAUSED in life.states) == is_paused


def test_a_drafter_that_says_nothing_is_no_reason_to_pause_it() -> None:
    control = SessionControl(LIMITS)
    control.meet(NGRAM)
    for _ in range(200):
        assert control.decide() == []


def test_a_drafter_whose_nodes_are_all_too_dear_is_paused_and_back_when_they_are_not() -> None:
    control, rates = SessionControl(LIMITS), SourceRates()
    control.meet(MODEL)

    def play(num_rounds: int, *, num_nodes: int) -> None:
        for position in range(num_rounds):
            if not control.is_paused(MODEL):
                said = Expansion(PrefixKey(position), position, (4,), (0.8,))
                control.saw(said, 4, rates)
                control.round_over([Spending(MODEL, num_nodes, num_nodes, 0.1 * num_nodes)])
            control.decide()

    play(33, num_nodes=0)
    assert control.is_paused(MODEL)
    play(400, num_nodes=0)
    assert control.num_probes_of(MODEL) >= 2
    play(200, num_nodes=1)
    assert control.states[MODEL] is DrafterState.ACTIVE


def test_drafters_are_judged_one_by_one() -> None:
    control, rates = SessionControl(LIMITS), SourceRates()
    for position in range(40):
        for kind, token_id in ((MODEL, 4), (NGRAM, 5)):
            said = Expansion(PrefixKey(1), position, (token_id,), (0.8,), source=kind)
            control.saw(said, 4, rates)
            rates.record(said, 4)
        control.round_over([Spending(MODEL, 2, 1, 0.1), Spending(NGRAM, 2, 0, 0.1)])
        control.decide()
    assert not control.is_paused(MODEL)
    assert control.is_paused(NGRAM)


def test_trust_is_how_often_it_came_true_here_over_what_all_sessions_say() -> None:
    life = Life()
    good = Expansion(PrefixKey(0), 0, (4,), (0.8,))
    for _ in range(1000):
        life.rates.record(good, 4 if life._rng.random() < 0.8 else 5)
    life.play(20, chance=0.3)
    trust = life.control.trust_in(MODEL)
    assert trust < 0.75
    assert life.control.weights(good, life.rates)[0] == pytest.approx(
        trust * life.rates.weights(good)[0]
    )


def test_a_probe_verifies_nothing_and_a_bad_drafter_is_not_waited_for() -> None:
    life = Life()
    life.play(30, chance=0.0)
    said = Expansion(PrefixKey(0), 0, (4,), (0.8,))
    for _ in range(400):  # as other sessions saw it
        life.rates.record(said, 5)
    assert life.control.first_rate(MODEL, life.rates) < 0.1
    while life.control.states[MODEL] is not DrafterState.PROBED:
        life.play(1, chance=0.0)
    assert life.control.weights(said, life.rates) == [0.0]
    fresh = SessionControl(LIMITS)
    assert fresh.first_rate(MODEL, life.rates) < 0.1 < fresh.first_rate(MODEL, SourceRates())
    good = Life()
    good.play(30, chance=0.6)
    assert 0.4 < good.control.first_rate(MODEL, good.rates) < 0.8


def test_without_control_nothing_is_paused_and_nothing_is_corrected() -> None:
    life = Life(ControlLimits(is_on=False))
    life.play(100, chance=0.0)
    assert not life.is_paused
    good = Expansion(PrefixKey(0), 0, (4,), (0.8,))
    assert life.control.weights(good, life.rates) == life.rates.weights(good)


@pytest.mark.parametrize(
    "limits", [{"pause_rounds": 0}, {"probe_rounds": 0}, {"min_acceptance": 1.5}]
)
def test_a_bound_that_means_nothing_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        ControlLimits(**limits)  # type: ignore[arg-type]


def test_a_drafter_in_doubt_is_probed_late_and_comes_back_when_it_is_right() -> None:
    life = Life()
    life.control.doubt(MODEL)
    life.play(250, chance=0.75)
    assert set(life.states) == {DrafterState.PAUSED}
    life.play(50, chance=0.75)
    assert life.control.num_probes_of(MODEL) == 1
    assert life.control.states[MODEL] is DrafterState.ACTIVE
