"""Rule `ratio` rests on this: what is grown, sent, kept and verified depends on no value drawn."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from ssd.core.drafter import Drafter
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.drafter_outputs import Output, ToVerifier
from ssd.core.edge_rates import EdgeRates
from ssd.core.expansion import Expansion, SampledCandidates
from ssd.core.expansion_map import ExpansionMap
from ssd.core.fan_out import structural_estimates
from ssd.core.growth import GrowthLimits, chain_limits
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.messages import Commit, Grow, Open, Rates, Refused
from ssd.core.mode import Mode
from ssd.core.price import CostModel
from ssd.core.read_off import Soil, read_off
from ssd.core.rule import Rule
from ssd.core.sampling_params import SamplingParams
from ssd.core.source_rates import SourceRates
from ssd.core.sparse_law import SparseLaw
from ssd.core.verifier import Verifier
from ssd.core.verifier_limits import VerifierLimits
from ssd.core.verifier_outputs import ToDrafter

TEXT = (3, 1, 4)
VOCAB_SIZE = 50
SESSION = SessionId("a")
BY_RATIO = SamplingParams(rule=Rule.RATIO, seed=1)
OPENING = Open(SESSION, Epoch(1), TEXT, len(TEXT), 40, params=BY_RATIO)
LIMITS = VerifierLimits(vocab_size=VOCAB_SIZE, context_len=64, kv_slots=1000)
LAW = SparseLaw.pack((7, 8, 9), (0.5, 0.25, 0.125))
SAMPLED = Expansion(key_of(TEXT), len(TEXT), (8, 7, 9), (0.6, 0.2, 0.1), 0, 1, LAW)


def sampled(rng: random.Random, num_proposals: int) -> SampledCandidates:
    """Any tokens with any law, always as many."""
    ids = rng.sample(range(VOCAB_SIZE), 12)
    law = SparseLaw.pack(ids, [rng.random() + 1e-3 for _ in ids])
    return SampledCandidates(tuple(ids[:6]), num_proposals, law)


def shape_of(outputs: list[Output]) -> list[object]:
    """All of an output but its values."""
    shapes: list[object] = []
    for output in outputs:
        if isinstance(output, ToVerifier) and isinstance(output.message, Grow):
            grow = output.message
            columns = [
                (each.position, each.estimates, each.step, each.num_proposals)
                for each in grow.expansions
            ]
            shapes.append((grow.base_len, columns, grow.is_exhausted))
        else:
            shapes.append(type(output))
    return shapes


def schedule(value_seed: int, *, num_proposals: int, mode: Mode) -> list[object]:
    """What a drafter does in a fixed sequence of events, whose tokens differ by the seed."""
    rng, choices = random.Random(value_seed), random.Random(0)
    limits = DrafterLimits(64, 4096, GrowthLimits(max_depth=5), chain_limits(3))
    core = Drafter(limits)
    done: list[object] = shape_of(core.open(replace(OPENING, mode=mode), peer="v"))
    text = list(TEXT)
    while len(text) < 25:
        for _ in range(choices.randrange(5)):
            step = core.next_step()
            if step is None:
                done.append("idle")
                break
            shares = [(len(share.rows.token_ids), share.rows.slots) for share in step.shares]
            done.append((step.number, shares))
            nodes = [node for share in step.shares for node in share.nodes]
            drawn = [sampled(rng, num_proposals) for _ in nodes]
            done += shape_of(core.step_done(step, drawn, start_s=0.0, end_s=0.0))
        children = [each[1] for each in core.sessions["v", SESSION].tree.cursor.candidates]
        place = choices.randrange(7)  # a candidate of this place, or none of them
        token_id = children[place] if place < len(children) else VOCAB_SIZE + place
        commit = Commit(SESSION, Epoch(1), len(text), key_of(text), (token_id,))
        done += shape_of(core.commit(commit, peer="v"))
        text.append(token_id)
        core.check()
    return done


@pytest.mark.parametrize("mode", [Mode.SSD, Mode.SD])
@pytest.mark.parametrize("num_proposals", [1, 3])
def test_a_drafter_does_the_same_whatever_it_drew(num_proposals: int, mode: Mode) -> None:
    one, other = (schedule(seed, num_proposals=num_proposals, mode=mode) for seed in (1, 2))
    assert one == other
    assert sum(isinstance(each, tuple) for each in one) > 20


def test_estimates_come_from_the_place_and_from_counts_alone() -> None:
    estimates = structural_estimates(2, 6)
    assert list(estimates) == sorted(estimates, reverse=True)
    assert sum(estimates) < 1.0
    assert structural_estimates(0, 0) == ()


def test_growth_by_reach_is_the_geometric_fan_out() -> None:
    """F_k ~ pi_k^(1 / (1 + r)), here r = 1: a key at depth k is worth pi_k j^-2."""
    level = 1e-4
    keys = structural_estimates(1, 400)[1:]
    accepted = structural_estimates(1, 1)[0]
    counts = [sum(accepted**depth * key >= level for key in keys) for depth in range(6)]
    for shallow, deep in pairwise(counts):
        assert deep / shallow == pytest.approx(accepted**0.5, abs=0.04)


def test_keys_are_never_proposed() -> None:
    known = ExpansionMap(keep_first=True)
    known.merge(SAMPLED)
    soil = Soil(TEXT[-1], key_of(TEXT), known, SourceRates().weights, max_nodes=8, max_depth=8)
    (planned,) = read_off([soil], max_nodes=8, is_worth=lambda *_: True)
    assert planned.tree.token_ids == (TEXT[-1], 8)


def test_equal_siblings_are_taken_in_draw_order_and_not_by_id() -> None:
    known = ExpansionMap(keep_first=True)
    known.merge(replace(SAMPLED, num_proposals=2, estimates=(0.3, 0.3, 0.1)))
    soil = Soil(TEXT[-1], key_of(TEXT), known, SourceRates().weights, max_nodes=1, max_depth=8)
    (planned,) = read_off([soil], max_nodes=8, is_worth=lambda *_: True)
    assert planned.tree.token_ids == (TEXT[-1], 8)


def opened(*drafters: str, params: SamplingParams = BY_RATIO) -> Verifier:
    core = Verifier(LIMITS, CostModel([(1, 0.01), (9, 0.01)]))
    for name in drafters:
        core.drafter_attached(name)
    core.open(replace(OPENING, params=params), owner="c")
    return core


def grow(*expansions: Expansion) -> Grow:
    return Grow(SESSION, Epoch(1), len(TEXT), expansions)


def test_the_first_draw_stays() -> None:
    core = opened("d")
    second = replace(SAMPLED, token_ids=(9, 7, 8))
    core.grow(grow(SAMPLED, second), now=0.0)
    core.grow(grow(second), now=0.0)
    assert core.sessions[SESSION].expansions.get(SAMPLED.key) == SAMPLED


@pytest.mark.parametrize(
    "bad",
    [
        replace(SAMPLED, num_proposals=None),
        replace(SAMPLED, num_proposals=4),
        replace(SAMPLED, law=SparseLaw(LAW.token_ids, LAW.weights[:4])),
        replace(SAMPLED, law=SparseLaw.pack((7, 8, VOCAB_SIZE), (0.5, 0.25, 0.125))),
        replace(SAMPLED, law=SparseLaw.pack((7, 8, 9), (0.5, 0.25, -0.125))),
    ],
)
def test_what_was_not_sampled_by_the_rule_is_dropped(bad: Expansion) -> None:
    core = opened("d")
    core.grow(grow(bad), now=0.0)
    assert core.num_stale == 1
    assert len(core.sessions[SESSION].expansions) == 0


def test_one_drafter_serves_a_session_and_its_heir_gets_the_text() -> None:
    core = opened("d1", "d2")
    (mine,) = core.sessions[SESSION].drafters
    heir = "d2" if mine == "d1" else "d1"
    assert core.drafter_attached("d3") == []
    (moved,) = core.drafter_lost(mine)
    assert isinstance(moved, ToDrafter)
    assert moved == ToDrafter(OPENING, moved.drafter_id)
    assert moved.drafter_id in {heir, "d3"}
    assert set(core.sessions[SESSION].drafters) == {moved.drafter_id}
    core.drafter_refused(Refused(SESSION, Epoch(1), "NoCapacity", "full"), drafter_id=heir)
    core.drafter_lost("d3")
    core.drafter_lost(heir)
    assert not core.sessions[SESSION].is_drafted
    assert core.drafter_attached("d4") == [ToDrafter(OPENING, "d4")]


def test_a_coupled_session_goes_to_every_drafter() -> None:
    core = opened("d1", "d2", params=SamplingParams())
    assert set(core.sessions[SESSION].drafters) == {"d1", "d2"}


def test_rules_keep_separate_counts() -> None:
    core = Drafter(DrafterLimits(64, 4096, GrowthLimits(), chain_limits(3)))
    counts = EdgeRates()
    tests, matches = (1.0,) * len(counts.tests), (0.5,) * len(counts.matches)
    core.rates_updated(Rates(tests, matches, Rule.RATIO))
    assert core.rates.tests == counts.tests
    assert core.ratio_rates.tests == list(tests)
