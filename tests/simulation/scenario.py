"""What one simulated run is made of. Everything follows from two integers."""

from dataclasses import dataclass
from random import Random

from ssd.core.client_session import Admission
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.growth import GrowthLimits, chain_limits
from ssd.core.ids import SessionId
from ssd.core.mode import Mode
from ssd.core.ngram_limits import NgramLimits
from ssd.core.sampling_params import SamplingParams
from ssd.core.speculation_control import ControlLimits
from ssd.core.verifier_limits import VerifierLimits
from tests.models.scripted_model import (
    Adversary,
    DraftModel,
    Noisy,
    Oracle,
    ScriptedModel,
    ShortContext,
)
from tests.simulation.network import CALM, Weather

VOCAB_SIZE = 12
CONTEXT_LEN = 64
SD_DEPTH = 3
NGRAM = NgramLimits(size_n=3, shortest=1, max_nodes=4)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The cast and the weather of a run."""

    seed: int
    target: ScriptedModel
    drafts: tuple[DraftModel, ...]
    admissions: tuple[Admission, ...]
    verifier_limits: VerifierLimits
    drafter_limits: tuple[DrafterLimits, ...]
    num_verifiers: int = 1
    num_faults: int = 0
    kept_faults: frozenset[int] | None = None
    """Which of the faults happen, by number; None for all."""
    to_drafter: Weather = CALM
    to_verifier: Weather = CALM
    to_coordinator: Weather = CALM
    from_coordinator: Weather = CALM
    crash: float = 0.0
    """Chance per event that some process or connection is lost, while faults last."""
    cancel: float = 0.0
    """Chance that a session is cancelled at some moment."""
    arrivals_s: float = 0.1
    """All requests arrive in this time."""


def random_scenario(seed: int, *, size: int) -> Scenario:
    """A run of at most `size` sessions, lengths and faults growing with it."""
    rng = Random(f"scenario {seed} {size}")
    target = ScriptedModel(vocab_size=VOCAB_SIZE, seed=seed)
    num_drafters = rng.choice((0, 1, 1, 1, 1, 2))
    num_faults = rng.choice((0, size, 3 * size))
    return Scenario(
        seed=seed,
        target=target,
        drafts=tuple(_random_draft(rng, target) for _ in range(num_drafters)),
        admissions=tuple(
            _random_admission(rng, f"s{index}", size) for index in range(rng.randint(1, size))
        ),
        verifier_limits=_random_verifier_limits(rng),
        drafter_limits=tuple(_random_drafter_limits(rng) for _ in range(num_drafters)),
        num_verifiers=rng.choice((1, 1, 2, 3)),
        num_faults=num_faults,
        to_drafter=_random_weather(rng),
        to_verifier=_random_weather(rng),
        to_coordinator=_random_weather(rng),
        from_coordinator=_random_weather(rng),
        crash=rng.choice((0.0, 0.002, 0.02)),
        cancel=rng.choice((0.0, 0.0, 0.3)),
    )


def _random_draft(rng: Random, target: ScriptedModel) -> DraftModel:
    kind = rng.choice((None, Oracle, Adversary, Noisy, Noisy, ShortContext))
    return target if kind is None else kind(target)


def _random_weather(rng: Random) -> Weather:
    drop, duplicate, reorder = (rng.choice((0.0, 0.0, 0.02, 0.2)) for _ in range(3))
    return Weather(drop, duplicate, reorder)


def _random_admission(rng: Random, name: str, size: int) -> Admission:
    prompt = tuple(rng.randrange(VOCAB_SIZE) for _ in range(rng.choice((1, 2, 5, 20))))
    output_len = rng.randint(1, 6 * size + 2)
    num_stops = rng.choice((0, 0, 1, 2))
    return Admission(
        session_id=SessionId(name),
        prompt_token_ids=prompt,
        max_len=min(len(prompt) + output_len, CONTEXT_LEN),
        params=SamplingParams(),
        stop_token_ids=frozenset(rng.randrange(VOCAB_SIZE) for _ in range(num_stops)),
        mode=rng.choice((Mode.SSD, Mode.SSD, Mode.SSD, Mode.SD, Mode.AR, Mode.SHADOW)),
    )


def _random_verifier_limits(rng: Random) -> VerifierLimits:
    return VerifierLimits(
        vocab_size=VOCAB_SIZE,
        context_len=CONTEXT_LEN,
        kv_slots=rng.choice((1000, 1000, 100, 76)),
        kv_block=rng.choice((1, 4, 16)),
        max_nodes=rng.choice((8, 8, 3, 1)),
        max_rows=rng.choice((256, 16, 8)),
        sd_depth=SD_DEPTH,
        sd_patience_s=0.05,
        ngram=rng.choice((None, NGRAM)),
        control=ControlLimits(
            is_on=rng.choice((True, True, False)),
            pause_rounds=rng.choice((32, 4)),
            probe_rounds=rng.choice((64, 2)),
        ),
    )


def _random_drafter_limits(rng: Random) -> DrafterLimits:
    growth = GrowthLimits(
        num_candidates=rng.choice((1, 2, 4)),
        frontier=rng.choice((1, 3, 8)),
        urgent_frontier=rng.choice((1, 2)),
        urgent_depth=rng.choice((0, 1, 2)),
        max_depth=rng.choice((1, 3, 6)),
        min_reach=rng.choice((1e-3, 0.1)),
        min_step_reach=rng.choice((0.0, 0.3)),
        max_nodes=rng.choice((1, 8, 32)),
        push_reach=rng.choice((0.01, 0.25, 2.0)),
    )
    return DrafterLimits(
        context_len=rng.choice((CONTEXT_LEN, CONTEXT_LEN, 12)),
        kv_slots=rng.choice((2000, 2000, 200, 48)),
        kv_block=rng.choice((1, 4, 16)),
        growth=growth,
        chain=chain_limits(SD_DEPTH),
        max_rows=rng.choice((256, 8, 2, 1)),
        prefill_rows=rng.choice((64, 4, 1)),
    )
