"""Random schedules: what is asked, and what goes wrong meanwhile."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from hypothesis import strategies as st

from ssd.core.mode import Mode
from ssd.core.sampling_params import SamplingParams
from ssd.sampling import DrawSpec, NoiseRows, target_token_ids
from tests.faults.faulty_cluster import SERVE, SPECULATE
from tests.faults.proxy import Direction, Fate, Fault
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import VOCAB_SIZE, agreeing

SCRIPT = ScriptedModel(seed=3)
FATES = {
    SPECULATE: tuple(Fate),
    SERVE: tuple(Fate),
}
_LAST_MESSAGE = {
    (SPECULATE, Direction.THERE): 24,
    (SPECULATE, Direction.BACK): 24,
    (SERVE, Direction.THERE): 5,
    (SERVE, Direction.BACK): 24,
}
"""About so many messages go each way while the requests of a schedule run."""


@dataclass(frozen=True, slots=True)
class Request:
    """One generation."""

    prompt: tuple[int, ...]
    max_tokens: int
    mode: Mode
    temperature: float
    seed: int
    stop_token_ids: tuple[int, ...] = ()

    @property
    def fields(self) -> dict[str, Any]:
        return {
            "max_tokens": self.max_tokens,
            "mode": self.mode.value,
            "temperature": self.temperature,
            "seed": self.seed,
            "stop_token_ids": self.stop_token_ids,
        }


@dataclass(frozen=True, slots=True)
class Schedule:
    """Requests that come together, and the faults that meet them."""

    requests: tuple[Request, ...]
    faults: tuple[Fault, ...] = field(default=())


def schedules() -> st.SearchStrategy[Schedule]:
    """Shrinks to few short requests and few faults early in the run."""
    return st.builds(
        Schedule,
        st.lists(_requests(), min_size=1, max_size=3).map(tuple),
        st.lists(_faults(), max_size=6).map(tuple),
    )


def _requests() -> st.SearchStrategy[Request]:
    token = st.integers(0, VOCAB_SIZE - 1)
    return st.builds(
        Request,
        prompt=st.lists(token, min_size=1, max_size=6).map(tuple),
        max_tokens=st.integers(1, 40),
        mode=st.sampled_from([Mode.AR, Mode.SSD, Mode.SSD, Mode.SD, Mode.SHADOW]),
        temperature=st.sampled_from([0.0, 1.0]),
        seed=st.integers(0, 3),
        stop_token_ids=st.one_of(st.just(()), st.tuples(token)),
    )


def _faults() -> st.SearchStrategy[Fault]:
    return st.one_of(
        [
            st.builds(
                Fault,
                edge=st.just(edge),
                direction=st.just(direction),
                at=st.integers(0, last),
                fate=st.sampled_from(FATES[edge]),
                amount=st.floats(0.0, 0.999),
            )
            for (edge, direction), last in _LAST_MESSAGE.items()
        ]
    )


@cache
def plain_text(request: Request) -> tuple[int, ...]:
    """Plain decoding of the request, by no code of the services or of the core's machines."""
    params = SamplingParams(temperature=request.temperature, seed=request.seed)
    noise = None if params.is_greedy else NoiseRows(request.seed, VOCAB_SIZE)
    logits_of = agreeing(SCRIPT)
    text = list(request.prompt)
    while len(text) < len(request.prompt) + request.max_tokens:
        logits = torch.tensor([logits_of(tuple(text))], dtype=torch.float64)
        text += target_token_ids(logits, [DrawSpec(params, len(text), noise)])
        if text[-1] in request.stop_token_ids:
            break
    return tuple(text[len(request.prompt) :])
