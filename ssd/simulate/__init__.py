"""The service in modelled time: the real core, with forwards and networks that only take time.

What runs is `ssd.core`, the code that serves. What is modelled is how long a forward and a message
take, and how often the draft guesses the target's token. So it answers what a cluster would do
before there is one, and no better than the times and the acceptance that it is given.
"""

from ssd.simulate.costs import Costs
from ssd.simulate.paper import Prediction, predict_paper
from ssd.simulate.scenario import Outcome, Scenario
from ssd.simulate.synthetic_text import SyntheticText
from ssd.simulate.world import simulate

__all__ = [
    "Costs",
    "Outcome",
    "Prediction",
    "Scenario",
    "SyntheticText",
    "predict_paper",
    "simulate",
]
