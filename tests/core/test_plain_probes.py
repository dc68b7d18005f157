"""Now and then a round leaves its drafts out, so that plain decoding stays measured."""

from dataclasses import replace
from itertools import pairwise

import pytest

from ssd.core import plain_probes
from ssd.core.mode import Mode
from ssd.core.plain_probes import PlainProbes
from ssd.core.rounds import WhyPlain
from tests.core.verifier_bench import LIMITS, TEXT, Bench, plain

FIRST, EVERY = 2, 5
LEN = 60


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_probes, "PROBE_EVERY", EVERY)
    monkeypatch.setattr(plain_probes, "FIRST_PROBE_AFTER", FIRST)


def drafted_to_the_end(mode: Mode) -> Bench:
    """A text for which every round finds a chain of one."""
    bench = Bench(replace(LIMITS, context_len=128, sd_depth=1))
    bench.attach()
    bench.open(max_len=len(TEXT) + LEN, mode=mode)
    bench.round()
    while bench.core.sessions:
        bench.grow_chain(1, text=(*TEXT, *bench.text()))
        bench.round()
    return bench


def test_one_round_in_so_many_is_bare_and_the_text_is_the_same() -> None:
    bench = drafted_to_the_end(Mode.SSD)
    assert bench.text() == plain(LEN)
    records = [each.record for each in bench.commits() if each.record is not None]
    probes = [index for index, each in enumerate(records) if each.why_plain is WhyPlain.PROBE]
    assert len(probes) > 3
    pauses = [later - sooner - 1 for sooner, later in pairwise(probes)]
    assert pauses == [2 * FIRST, *[EVERY] * (len(pauses) - 1)]
    for each in probes:
        assert (records[each].num_proposed, records[each].num_batch_rows) == (0, 1)
        assert records[each].wait_ns == 0, "it waits for no draft"
    between = [each for index, each in enumerate(records[2:-1], 2) if index not in probes]
    assert all(each.num_proposed == 1 for each in between), "nothing else is left out"


def test_a_probe_comes_after_so_many_drafted_rounds() -> None:
    probes = PlainProbes()
    for _ in range(FIRST):
        assert not probes.is_due
        probes.launched(is_drafted=True, is_probe=False)
    assert probes.is_due
    probes.launched(is_drafted=False, is_probe=True)
    assert not probes.is_due


def test_rounds_without_drafts_bring_no_probe_nearer() -> None:
    probes = PlainProbes()
    for _ in range(EVERY * 3):
        probes.launched(is_drafted=False, is_probe=False)
    assert not probes.is_due


def test_chains_of_mode_sd_are_never_left_out() -> None:
    bench = drafted_to_the_end(Mode.SD)
    assert all(
        each.record is None or each.record.why_plain is not WhyPlain.PROBE
        for each in bench.commits()
    )
