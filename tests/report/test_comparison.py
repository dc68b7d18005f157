"""Identical means equal ids: nothing else is known here."""

import pytest

from ssd.core.mode import Mode
from ssd.report import Comparison
from tests.report.synthetic_runs import TEXT, all_runs, run_record

PLAIN = run_record(Mode.AR)


def test_equal_ids_are_no_difference() -> None:
    assert Comparison(tuple(all_runs())).differences == ()


def test_the_first_differing_id_is_named() -> None:
    changed = run_record(token_ids=(*TEXT[:40], 999, *TEXT[41:]))
    (difference,) = Comparison((PLAIN, changed)).differences
    assert str(difference) == (
        "ssd at temperature 0, opening: token 40 is id 999, plain decoding has id 50"
    )


@pytest.mark.parametrize(
    ("token_ids", "words"),
    [(TEXT[:-1], "token 95 is the end"), ((*TEXT, 3), "plain decoding has the end")],
)
def test_a_shorter_or_longer_text_differs(token_ids: tuple[int, ...], words: str) -> None:
    (difference,) = Comparison((PLAIN, run_record(token_ids=token_ids))).differences
    assert words in str(difference)


def test_runs_are_compared_with_plain_decoding_of_their_own_question() -> None:
    warm = tuple(run_record(mode, temperature=1.0, token_ids=(1, 2, 3)) for mode in Mode)
    cold = tuple(run_record(mode) for mode in Mode)
    assert Comparison((*warm, *cold)).differences == ()


def test_only_the_run_that_differs_is_marked() -> None:
    changed = run_record(Mode.SD, token_ids=(1, 2, 3))
    entries = Comparison((PLAIN, run_record(), changed)).as_json()
    assert [each["identical_to_ar"] for each in entries] == [True, True, False]


def test_a_run_without_plain_decoding_is_refused() -> None:
    with pytest.raises(ValueError, match="no run in mode ar"):
        Comparison((PLAIN, run_record(temperature=1.0)))
