"""Without faults the drafts are as good as the drafter, from the first token to the last."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ssd.core import round_planner
from ssd.core.client_session import Admission, ClientSession
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.growth import GrowthLimits, chain_limits
from ssd.core.ids import SessionId
from ssd.core.mode import Mode
from ssd.core.read_off import Soil, read_off
from ssd.core.rounds import Lookup, RoundFigures, figures_of
from ssd.core.sampling_params import SamplingParams
from ssd.core.verifier_limits import VerifierLimits
from tests.models.scripted_model import Adversary, DraftModel, Noisy, ScriptedModel
from tests.simulation.scenario import SD_DEPTH, Scenario
from tests.simulation.world import World

TARGET = ScriptedModel(vocab_size=12, seed=7)
PROMPT = (3, 1, 4, 1, 5)
CONTEXT_LEN = 1100


def _request(name: str, num_tokens: int, mode: Mode = Mode.SSD) -> Admission:
    return Admission(
        session_id=SessionId(name),
        prompt_token_ids=PROMPT,
        max_len=len(PROMPT) + num_tokens,
        params=SamplingParams(),
        stop_token_ids=frozenset(),
        mode=mode,
    )


def _calm(draft: DraftModel, *admissions: Admission) -> Scenario:
    return Scenario(
        seed=1,
        target=TARGET,
        drafts=(draft,),
        admissions=admissions,
        verifier_limits=VerifierLimits(12, CONTEXT_LEN, kv_slots=20_000, sd_depth=SD_DEPTH),
        drafter_limits=(
            DrafterLimits(CONTEXT_LEN, 50_000, GrowthLimits(), chain_limits(SD_DEPTH)),
        ),
    )


def _play(scenario: Scenario) -> dict[str, ClientSession]:
    world = World(scenario)
    world.run()
    return {str(name): books for name, books in world.clients.texts.items()}


def _figures(session: ClientSession) -> RoundFigures:
    num_tokens = len(session.output_token_ids)
    return figures_of(session.rounds, session.growth, num_tokens=num_tokens)


@pytest.mark.parametrize("mode", [Mode.SSD, Mode.SD])
def test_the_target_as_its_own_drafter_is_always_accepted(mode: Mode) -> None:
    """Case G1: a rewind off by one would change no text and slowly lose acceptance."""
    session = _play(_calm(TARGET, _request("a", 1000, mode)))["a"]
    figures = _figures(session)
    assert figures.num_tokens == 1000
    assert figures.acceptance == 1.0
    assert figures.num_accepted > 500
    assert figures.misses[Lookup.MISS_KEY] == 0


def test_a_drafter_that_is_always_wrong_changes_nothing() -> None:
    figures = _figures(_play(_calm(Adversary(TARGET), _request("a", 200)))["a"])
    assert figures.acceptance == 0.0
    assert figures.num_rounds == figures.num_tokens == 200


def test_a_good_drafter_saves_rounds() -> None:
    figures = _figures(_play(_calm(Noisy(TARGET), _request("a", 200)))["a"])
    assert 0.5 < figures.acceptance < 1.0
    assert figures.tokens_per_round > 1.5


def test_one_long_text_among_short_ones_costs_none_of_them_acceptance() -> None:
    """Case G7."""
    requests = [_request(f"s{index}", 40) for index in range(4)]
    sessions = _play(_calm(TARGET, _request("long", 300), *requests))
    assert {_figures(each).acceptance for each in sessions.values()} == {1.0}


def test_acceptance_returns_with_the_drafter() -> None:
    world = World(_calm(TARGET, _request("a", 400)))
    world.loop.after(0.3, lambda: world.lose("drafter", away_s=0.3))
    world.run()
    [session] = world.clients.texts.values()
    absent = [each.lookup is Lookup.MISS_ABSENT for each in session.rounds]
    last_absent = len(absent) - 1 - absent[::-1].index(True)
    later = session.rounds[last_absent + 3 :]
    assert any(absent)
    assert sum(each.num_accepted for each in later) == sum(each.num_tested for each in later) > 100


def test_rounds_without_drafts_keep_the_drafter_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case G6: under load nothing is proposed for a while; then acceptance is what it was."""
    world = World(_calm(TARGET, _request("a", 400)))
    begin_s, end_s = world.loop.now + 0.3, world.loop.now + 0.8  # too short to pause the drafter

    def read_off_seldom(soils: Sequence[Soil], *, max_nodes: int, **others: Any) -> Any:
        is_dear = begin_s <= world.loop.now < end_s
        return read_off(soils, max_nodes=0 if is_dear else max_nodes, **others)

    monkeypatch.setattr(round_planner, "read_off", read_off_seldom)
    world.run()
    [session] = world.clients.texts.values()
    plain = [each for each in session.rounds if begin_s * 1e9 <= each.launch_ns < end_s * 1e9]
    later = [each for each in session.rounds if each.launch_ns >= end_s * 1e9]
    assert len(plain) > 20
    assert not any(each.num_proposed for each in plain)
    assert later[0].num_accepted > 0, "the drafter never lost its place"
    assert sum(each.num_accepted for each in later) == sum(each.num_tested for each in later) > 50


def test_a_thousand_requests_with_cancels_leave_no_slot_behind() -> None:
    """Case G3; the run itself checks that both sides end empty."""
    requests = [_request(f"r{index}", 1 + index % 23) for index in range(1000)]
    scenario = _calm(Noisy(TARGET), *requests)
    limits = replace(scenario.verifier_limits, kv_slots=800)
    world = World(replace(scenario, verifier_limits=limits, cancel=0.4, arrivals_s=30.0))
    world.run()
    assert len(world.clients.cancelled) > 50
