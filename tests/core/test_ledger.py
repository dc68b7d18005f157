"""What follows when a verifier's ledger is held against the books."""

import pytest

from ssd.core.client_session import Admission, ClientSession
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.ledger import LedgerEntry, Standing, Verdict, reconcile
from ssd.core.mode import Mode
from ssd.core.sampling_params import SamplingParams

TEXT = (1, 2, 3, 4, 5)
HERE = Standing(Epoch(3), len(TEXT), key_of(TEXT))


def entry(text: tuple[int, ...] = TEXT, *, epoch: int = 3, is_paused: bool = False) -> LedgerEntry:
    lengths = (len(text), key_of(text), len(text) - 1)
    return LedgerEntry(SessionId("a"), Epoch(epoch), *lengths, 7, is_paused)


@pytest.mark.parametrize(
    ("standing", "said", "verdict"),
    [
        (HERE, entry(), Verdict.CONTINUE),
        (HERE, entry((*TEXT, 6, 7)), Verdict.RESUME),
        (HERE, entry(is_paused=True), Verdict.RESUME),  # the order to go on was lost
        (HERE, None, Verdict.OPEN),
        (HERE, entry((1, 2, 3, 4, 9)), Verdict.OPEN),  # another text of equal length
        (HERE, entry(TEXT[:3]), Verdict.OPEN),  # it got these tokens from us, and lost some
        (HERE, entry(epoch=2), Verdict.OPEN),  # it never heard of the newer opening
        (HERE, entry(epoch=4), Verdict.OPEN),  # an epoch that the books lost
        (HERE, entry((*TEXT, 6), epoch=2), Verdict.OPEN),
        (None, entry(), Verdict.CLOSE),
    ],
)
def test_every_difference_has_one_answer(
    standing: Standing | None, said: LedgerEntry | None, verdict: Verdict
) -> None:
    assert reconcile(standing, said) is verdict


def test_a_session_that_nobody_knows_is_no_question() -> None:
    with pytest.raises(ValueError, match="neither"):
        reconcile(None, None)


def test_restored_books_stand_where_they_stood() -> None:
    admission = Admission(SessionId("a"), TEXT[:3], 20, SamplingParams(), frozenset(), Mode.SSD)
    books = ClientSession.restored(
        admission, epoch=Epoch(3), output_token_ids=TEXT[3:], finish_reason=None
    )
    assert books.standing == HERE
    assert books.resume().have_len == 5
    assert books.open(above=Epoch(90)).epoch == 91
    assert books.open(above=Epoch(90)).epoch == 92
