"""What a drafter samples under rule `ratio`, and the numbers that decide it."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from ssd.core.expansion import SampledCandidates
from ssd.core.sparse_law import SparseLaw
from ssd.sampling.coins import SeededCoins, Uniforms, Weights, pick
from ssd.sampling.draft_law import DraftLaw, DraftPolicy, draw_proposals, sample_candidates
from ssd.sampling.philox import Purpose
from tests.exactness.chi_square import ALPHA, p_value

SCORES = torch.tensor([0.5, 2.0, -1.0, 1.0, -math.inf, 0.0])


class Fixed:
    """Always takes the choice at this place."""

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.asked: list[Weights] = []

    def accept(self, probability: float) -> bool:
        raise AssertionError("a draft accepts nothing")

    def choose(self, weights: Weights) -> int:
        self.asked.append(weights)
        return min(self.index, len(weights) - 1)


def sampled(policy: DraftPolicy, coins: Fixed | None = None) -> SampledCandidates:
    (found,) = sample_candidates(SCORES.unsqueeze(0), policy, [coins or Fixed()], num_candidates=4)
    return found


def test_a_choice_falls_into_the_share_of_its_weight() -> None:
    weights = np.array([0.0, 1.0, 3.0, 0.0])
    assert [pick(weights, each) for each in (1e-16, 0.24, 0.26, 1.0 - 2.0**-53)] == [1, 1, 2, 2]
    assert pick(weights, 1.0) == 2


def test_uniforms_are_even_and_differ_by_position_purpose_and_place() -> None:
    accept, draft = (
        Uniforms(7, purpose, num_draws=3) for purpose in (Purpose.ACCEPT, Purpose.DRAFT)
    )
    rows = [accept.at(position) for position in range(20_000)]
    tenths = [int(10 * number) for row in rows for number in row]
    assert p_value(tenths, dict.fromkeys(range(10), 0.1)) > ALPHA
    flat = {number for row in rows for number in row}
    assert len(flat) == 60_000
    assert accept.at(3) == rows[3]
    assert draft.at(3) != accept.at(3)


def test_a_law_is_cut_before_it_is_sampled_and_sent_as_it_was_sampled() -> None:
    coins = Fixed(index=1)
    found = sampled(DraftPolicy(law_len=3), coins)
    assert found.law is not None
    token_ids, weights = found.law.unpacked()
    assert token_ids == (1, 3, 0)
    assert weights == pytest.approx([1.0, math.exp(-1.0), math.exp(-1.5)], rel=1e-6)
    assert coins.asked[0].tolist() == list(weights)
    assert found.token_ids == (3, 1, 0, 5)
    assert found.num_proposals == 1


def test_saguaro_lowers_the_keys_places_in_the_law() -> None:
    found = sampled(DraftPolicy(top_weight=0.5))
    assert found.law is not None
    _, weights = found.law.unpacked()
    plain = [math.exp(each - 2.0) for each in (2.0, 1.0, 0.5, 0.0, -1.0)]
    assert weights == pytest.approx([*(0.5 * each for each in plain[:3]), *plain[3:]], rel=1e-6)


def test_siblings_are_drawn_without_replacement_each_from_what_is_left() -> None:
    law = DraftLaw(np.array([4, 2, 7]), np.array([2.0, 1.0, 1.0]))
    first, second, third = draw_proposals(law, 5, Fixed())
    assert [each.token_id for each in (first, second, third)] == [4, 2, 7]
    assert [each.probability for each in (first, second, third)] == [0.5, 0.5, 1.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_broken_row_has_no_candidates(bad: float) -> None:
    rows = torch.tensor([[0.0, bad, 1.0], [0.0, 2.0, 1.0]])
    found = sample_candidates(rows, DraftPolicy(), [Fixed(), Fixed()], num_candidates=2)
    assert found[0] == SampledCandidates((), 0, None)
    assert found[1].token_ids == (1, 2)


def test_proposals_follow_the_law_that_is_sent() -> None:
    uniforms = Uniforms(11, Purpose.DRAFT, num_draws=2)
    pairs: Counter[tuple[int, ...]] = Counter()
    for position in range(20_000):
        coins = SeededCoins([], uniforms.at(position))
        policy = DraftPolicy(num_proposals=2)
        (found,) = sample_candidates(SCORES.unsqueeze(0), policy, [coins], num_candidates=2)
        pairs[found.token_ids] += 1
    shares = SCORES.double().softmax(dim=-1).tolist()
    law: dict[tuple[int, ...], float] = {
        (one, other): shares[one] * shares[other] / (1.0 - shares[one])
        for one in range(6)
        for other in range(6)
        if one != other and shares[one] * shares[other] > 0.0
    }
    assert p_value(pairs.elements(), law) > ALPHA


def test_a_policy_outside_its_limits_is_refused() -> None:
    for policy in ({"num_proposals": 0}, {"law_len": 0}, {"top_weight": 0.0}, {"top_weight": 1.5}):
        with pytest.raises(ValueError, match=r"must be|needs"):
            DraftPolicy(**policy)


def test_a_law_is_as_long_as_it_says_and_holds_what_a_law_can() -> None:
    law = SparseLaw.pack((3, 1), (0.75, 0.25))
    assert law.unpacked() == ((3, 1), (0.75, 0.25))
    assert law.makes_sense(vocab_size=4)
    for bad in (
        SparseLaw(b"", b""),
        SparseLaw(law.token_ids, law.weights[:4]),
        SparseLaw(law.token_ids[:7], law.weights[:7]),
        SparseLaw.pack((3, 3), (0.5, 0.5)),
        SparseLaw.pack((4, 1), (0.5, 0.5)),
        SparseLaw.pack((3, 1), (0.5, 0.0)),
        SparseLaw.pack((3, 1), (0.5, -0.5)),
        SparseLaw.pack((3, 1), (0.5, math.nan)),
        SparseLaw.pack((3, 1), (0.5, math.inf)),
    ):
        assert not bad.makes_sense(vocab_size=4), bad
