"""The paper's figures come out of the simulator with one number per pair fitted."""

import pytest

from ssd.core.mode import Mode
from ssd.simulate import predict_paper
from ssd.simulate.paper import PAIRS, acceptance_of, run_pair
from ssd.simulate.synthetic_text import SyntheticText


@pytest.mark.soak
def test_every_figure_is_predicted_within_a_tenth() -> None:
    predictions = predict_paper()
    assert len(predictions) == 10
    for each in predictions:
        assert abs(each.error) < (0.02 if each.is_fitted else 0.1), each


def test_the_larger_pair_is_predicted_within_a_tenth() -> None:
    """The short version: one pair, its best lookahead, fewer tokens."""
    pair = PAIRS[0]
    text = SyntheticText(acceptance_of(pair, num_tokens=768))
    ssd = run_pair(pair, text, Mode.SSD, lookahead=8, num_tokens=768)
    assert ssd.tokens_per_s == pytest.approx(pair.published, rel=0.1)
