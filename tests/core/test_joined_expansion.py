"""Several drafters at one place: one set of candidates, and who named them is kept."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssd.core.drafter_kind import DrafterKind, kinds_in
from ssd.core.expansion import Expansion
from ssd.core.expansion_map import ExpansionMap
from ssd.core.joined_expansion import joined
from ssd.core.keys import extend_key, key_of
from ssd.core.read_off import Soil, read_off
from ssd.core.source_rates import SourceRates

MODEL, NGRAM, SELF = DrafterKind.MODEL, DrafterKind.NGRAM, DrafterKind.SELF
TEXT = (1, 2, 3)
KEY = key_of(TEXT)


def said(source: DrafterKind, *candidates: tuple[int, float], step: int = 7) -> Expansion:
    ranked = sorted(candidates, key=lambda each: -each[1])
    tokens, estimates = zip(*ranked, strict=True) if ranked else ((), ())
    own_step = 0 if source is NGRAM else step
    return Expansion(KEY, len(TEXT), tokens, estimates, own_step, source=source)


sayings = st.builds(
    lambda source, candidates: said(source, *candidates.items()),
    st.sampled_from(DrafterKind),
    st.dictionaries(st.integers(0, 5), st.floats(0.01, 0.99), min_size=1, max_size=4),
)


@given(first=sayings, second=sayings, third=sayings)
def test_the_order_of_arrival_of_different_drafters_does_not_matter(
    first: Expansion, second: Expansion, third: Expansion
) -> None:
    if len({first.source, second.source, third.source}) < 3:
        return
    one = joined(joined(first, second), third)
    other = joined(joined(third, first), second)
    by_token = dict(zip(one.token_ids, zip(one.estimates, one.origins, strict=True), strict=True))
    for token_id, estimate, origin in zip(
        other.token_ids, other.estimates, other.origins, strict=True
    ):
        assert by_token[token_id][0] == pytest.approx(estimate)
        assert by_token[token_id][1] == origin
    assert set(one.token_ids) == {
        each for part in (first, second, third) for each in part.token_ids
    }
    assert sum(one.estimates) <= 1.0 + 1e-9 or len(one.parts) == 1
    assert joined(one, first) is one, "a repeated message changes nothing"


def test_what_two_of_them_name_is_likelier_than_what_either_says() -> None:
    both = joined(said(MODEL, (4, 0.6), (5, 0.2)), said(NGRAM, (4, 0.5)))
    assert both.token_ids[0] == 4
    assert both.estimates[0] == pytest.approx(0.8)
    assert kinds_in(both.origin_of(4)) == (MODEL, NGRAM)
    assert kinds_in(both.origin_of(5)) == (MODEL,)


def test_what_cannot_all_be_true_is_scaled_down() -> None:
    both = joined(said(MODEL, (4, 0.9)), said(NGRAM, (5, 0.6)))
    assert both.estimates == pytest.approx((0.6, 0.4))


def test_a_node_of_the_verifiers_own_drafter_names_no_growth_step() -> None:
    both = joined(said(MODEL, (4, 0.6)), said(NGRAM, (4, 0.5), (5, 0.4)))
    assert both.step_of(4) == 7
    assert both.step_of(5) is None


def test_only_counts_of_the_same_case_correct_a_candidate() -> None:
    rates, rng = SourceRates(), random.Random(1)
    agreed = joined(said(MODEL, (4, 0.6)), said(NGRAM, (4, 0.6)))
    contested = joined(said(MODEL, (4, 0.6)), said(NGRAM, (5, 0.6)))
    for _ in range(500):
        rates.record(agreed, 4 if rng.random() < 0.95 else 9)
        rates.record(contested, 4 if rng.random() < 0.7 else 5)
    assert rates.weights(agreed)[0] == pytest.approx(0.95, abs=0.04)
    weights = dict(zip(contested.token_ids, rates.weights(contested), strict=True))
    assert weights[4] == pytest.approx(0.7, abs=0.06)
    assert weights[5] == pytest.approx(0.3, abs=0.06)
    alone = said(NGRAM, (5, 0.6))
    assert rates.weights(alone)[0] == pytest.approx((0.95 + 0.3) / 2, abs=0.06)


def test_one_tree_has_the_nodes_of_both() -> None:
    known = ExpansionMap()
    known.merge(said(NGRAM, (4, 0.7)))
    below = Expansion(extend_key(KEY, 4), 4, (8,), (0.8,), source=NGRAM)
    known.merge(below)
    known.merge(said(MODEL, (5, 0.6), (4, 0.3)))
    soil = Soil(3, KEY, known, SourceRates().weights, max_nodes=8, max_depth=8)
    (planned,) = read_off([soil], max_nodes=8, is_worth=lambda reach, _: reach > 0.05)
    assert set(planned.tree.paths()) == {(), (4,), (4, 8), (5,)}
    nodes = planned.tree.paths()
    counts = planned.nodes_of([nodes.index((4,)), nodes.index((4, 8))])
    assert counts == {MODEL: (2, 1), NGRAM: (2, 2)}


@pytest.mark.parametrize(("estimate", "promise"), [(0.9, 0.1), (0.2, 0.8)])
def test_waiting_for_a_model_promises_what_others_did_not_list(
    estimate: float, promise: float
) -> None:
    known = ExpansionMap()
    known.merge(said(NGRAM, (4, estimate)))
    soil = Soil(3, KEY, known, SourceRates().weights, max_nodes=8, max_depth=8, awaited=MODEL.bit)
    (planned,) = read_off([soil], max_nodes=8, is_worth=lambda *_: True)
    assert planned.open_reach == pytest.approx(promise)


def test_under_rule_ratio_whoever_wrote_first_stands() -> None:
    known = ExpansionMap(keep_first=True)
    first = said(MODEL, (4, 0.6))
    known.merge(first)
    known.merge(said(NGRAM, (5, 0.9)))
    assert known.get(KEY) is first
