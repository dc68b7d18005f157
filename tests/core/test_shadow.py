"""Mode `shadow`: the rounds of plain decoding, and counters of those that drafts would make."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ssd.core import plain_probes
from ssd.core.expansion import Expansion
from ssd.core.expansion_map import ExpansionMap
from ssd.core.keys import extend_key, key_of
from ssd.core.messages import Rates
from ssd.core.mode import Mode
from ssd.core.ngram_limits import NgramLimits
from ssd.core.read_off import Soil, read_off
from ssd.core.rounds import Lookup, RoundRecord, ShadowRound, WhyPlain, shadow_figures_of
from ssd.core.shadow import Shadow
from ssd.core.source_rates import SourceRates
from ssd.core.speculation_control import ControlLimits
from tests.core.verifier_bench import LIMITS, MODEL, TEXT, VOCAB_SIZE, Bench

MAX_LEN = 60
CHAINS = replace(LIMITS, max_nodes=3, sd_depth=3)


@pytest.fixture(autouse=True)
def without_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drafted mode leaves its drafts out now and then; a shadow, which has none, does not."""
    monkeypatch.setattr(plain_probes, "FIRST_PROBE_AFTER", 10**9)


def _guesses(rng: random.Random, *, num_candidates: int) -> list[Expansion]:
    """Expansions below the whole text to come: some right at once, some later, some missing."""
    text = (*TEXT, *MODEL.continue_text(TEXT, max_len=MAX_LEN, stop_token_ids=frozenset()))
    guesses = []
    for length in range(len(TEXT), len(text)):
        if rng.random() < 0.2:
            continue
        others = [each for each in range(VOCAB_SIZE) if each != text[length]]
        token_ids = rng.sample(others, num_candidates)
        if rng.random() < 0.8:
            token_ids[rng.randrange(num_candidates)] = text[length]
        estimates = sorted((rng.uniform(0.05, 0.9) for _ in token_ids), reverse=True)
        key = key_of(text[:length])
        guesses.append(Expansion(key, length, tuple(token_ids), tuple(estimates)))
    return guesses


def _records(mode: Mode, guesses: Sequence[Expansion], bench: Bench) -> list[RoundRecord]:
    bench.attach()
    bench.open(mode=mode, max_len=MAX_LEN)
    if mode is not Mode.AR:
        bench.grow(*guesses, is_exhausted=True)
    bench.run_out()
    assert bench.text() == MODEL.continue_text(TEXT, max_len=MAX_LEN, stop_token_ids=frozenset())
    return [each.record for each in bench.commits() if each.record is not None]


def _counts(rounds: Sequence[RoundRecord | ShadowRound]) -> tuple[object, ...]:
    return (
        len(rounds),
        sum(each.num_proposed for each in rounds),
        sum(each.num_tested for each in rounds),
        sum(each.num_accepted for each in rounds),
        Counter(each.lookup for each in rounds),
    )


def _shadows(records: Sequence[RoundRecord]) -> list[ShadowRound]:
    return [each.shadow for each in records if each.shadow is not None]


@pytest.mark.parametrize("seed", range(12))
def test_the_counters_are_those_of_mode_ssd(seed: int) -> None:
    guesses = _guesses(random.Random(seed), num_candidates=3)
    verified = _records(Mode.SSD, guesses, Bench())
    shadows = _shadows(_records(Mode.SHADOW, guesses, Bench()))
    assert _counts(shadows) == _counts(verified)
    assert sum(each.num_accepted for each in verified) > 0
    assert {Lookup.HIT, Lookup.MISS_KEY, Lookup.LAST} <= {each.lookup for each in shadows}


@pytest.mark.parametrize("seed", range(4))
def test_drafts_of_the_session_itself_are_followed_nearly(seed: int) -> None:
    """They are made at every commit, and a shadow has more of those."""
    ngram = NgramLimits(shortest=2)  # of twelve ids one says little
    limits = replace(LIMITS, ngram=ngram, control=ControlLimits(is_on=False))
    guesses = _guesses(random.Random(seed), num_candidates=2)[::3]
    verified = _records(Mode.SSD, guesses, Bench(limits))
    shadows = _shadows(_records(Mode.SHADOW, guesses, Bench(limits)))
    assert len(shadows) == pytest.approx(len(verified), rel=0.15)
    without = _shadows(_records(Mode.SHADOW, guesses, Bench()))
    assert sum(each.num_proposed for each in shadows) > sum(each.num_proposed for each in without)


@pytest.mark.parametrize("seed", range(6))
def test_of_chains_the_counters_are_those_of_mode_sd_as_well(seed: int) -> None:
    guesses = _guesses(random.Random(seed), num_candidates=1)
    modes = (Mode.SD, Mode.SSD)
    verified = [_records(mode, guesses, Bench(CHAINS)) for mode in modes]
    shadows = _shadows(_records(Mode.SHADOW, guesses, Bench(CHAINS)))
    assert _counts(shadows) == _counts(verified[0]) == _counts(verified[1])


def test_the_rounds_are_those_of_plain_decoding() -> None:
    guesses = _guesses(random.Random(1), num_candidates=3)
    plain = _records(Mode.AR, (), Bench())
    shadowed = _records(Mode.SHADOW, guesses, Bench())
    assert [replace(each, shadow=None, drafters=()) for each in shadowed] == plain
    assert {each.why_plain for each in shadowed} == {WhyPlain.MODE}


def test_a_shadow_waits_for_no_draft() -> None:
    bench = Bench()
    bench.attach()
    bench.open(mode=Mode.SHADOW, max_len=MAX_LEN)
    while bench.core.sessions:
        bench.finish(bench.start())
    assert [each.lookup for each in _shadows([c.record for c in bench.commits() if c.record])] == [
        *[Lookup.MISS_LATE] * (MAX_LEN - len(TEXT) - 1),
        Lookup.LAST,
    ]


def test_the_drafter_is_told_of_a_shadowed_text() -> None:
    bench = Bench()
    bench.attach()
    bench.open(mode=Mode.SHADOW, max_len=6)
    bench.run_out()
    messages = [each.message for each in bench.drafted if not isinstance(each.message, Rates)]
    kinds = [type(each).__name__ for each in messages]
    assert kinds == ["Open", "Commit", "Commit", "Close"]


def test_what_comes_after_the_verification_would_have_ended_is_no_hit() -> None:
    """The tree holds b; c follows. The cursor after c is expanded while b is drawn, which the
    verification would have done in one round: too late."""
    a, b, c, d = 1, 2, 3, 4
    expansions = ExpansionMap()
    expansions.merge(Expansion(key_of((a,)), 1, (b,), (0.9,)))
    shadow = Shadow()
    soil = Soil(a, key_of((a,)), expansions, SourceRates().weights, max_nodes=4, max_depth=4)
    shadow.begin(read_off([soil], max_nodes=4, is_worth=lambda *_: True)[0])

    def drawn(token_id: int, text: tuple[int, ...]) -> ShadowRound | None:
        return shadow.drawn(
            token_id, cursor=key_of(text), expansions=expansions, is_drafted=True, is_last=False
        )

    assert drawn(b, (a,)) is None
    expansions.merge(Expansion(key_of((a, b, c)), 3, (d,), (0.9,)))
    ended = drawn(c, (a, b))
    assert ended == ShadowRound(2, 1, 1, 1, Lookup.MISS_LATE)
    assert shadow.wants_tree
    assert shadow.source(expansions) is expansions


def test_after_a_hit_the_next_tree_is_what_the_hit_found() -> None:
    a, b, c = 1, 2, 3
    expansions = ExpansionMap()
    cursor = key_of((a,))
    expansions.merge(Expansion(cursor, 1, (b,), (0.9,)))
    expansions.merge(Expansion(extend_key(cursor, c), 2, (b,), (0.9,)))
    shadow = Shadow()
    soil = Soil(a, cursor, expansions, SourceRates().weights, max_nodes=0, max_depth=4)
    shadow.begin(read_off([soil], max_nodes=0, is_worth=lambda *_: True)[0])
    ended = shadow.drawn(c, cursor=cursor, expansions=expansions, is_drafted=True, is_last=False)
    assert ended is not None
    assert ended.lookup is Lookup.HIT
    later = Expansion(key_of((a, c, b)), 3, (a,), (0.9,))
    expansions.merge(later)
    source = shadow.source(expansions)
    assert source.get(later.key) is None
    assert source.get(extend_key(cursor, c)) is not None


def test_a_request_that_nobody_shadowed_has_no_such_figures() -> None:
    plain = _records(Mode.AR, (), Bench())
    assert shadow_figures_of(plain) is None


def test_shadow_figures_add_up() -> None:
    guesses = _guesses(random.Random(2), num_candidates=3)
    figures = shadow_figures_of(_records(Mode.SHADOW, guesses, Bench()))
    assert figures is not None
    assert figures.num_tokens == MAX_LEN - len(TEXT)
    assert figures.num_rounds + figures.num_accepted == figures.num_tokens
    assert figures.tokens_per_round > 1.0
    assert 0.0 < figures.acceptance < 1.0
    assert figures.busy == figures.verify_ms == 0.0
