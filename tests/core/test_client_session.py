"""The books take each token once, in order, from the current epoch only."""

import pytest

from ssd.core.client_session import Admission, ClientSession, Reconciled
from ssd.core.errors import ProtocolError
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.messages import Commit, Finished, FinishReason
from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, Lookup, RoundRecord
from ssd.core.sampling_params import SamplingParams

PROMPT = (3, 1, 4)
STOP = 9
RECORD = RoundRecord(1, 3, 0, 1, 0, 0, 0, 0, 1, Lookup.HIT)
SPAN = GrowthSpan(1, 3, 0, 1, 1)


@pytest.fixture
def session() -> ClientSession:
    admission = Admission(
        session_id=SessionId("a"),
        prompt_token_ids=PROMPT,
        max_len=8,
        params=SamplingParams(),
        stop_token_ids=frozenset({STOP}),
        mode=Mode.SSD,
    )
    opened = ClientSession(admission)
    opened.open()
    return opened


def _commit(session: ClientSession, base: int, *token_ids: int, epoch: int = 1) -> Reconciled:
    """A commit at `base` as an honest verifier would send it."""
    text = (*PROMPT, *session.output_token_ids)
    return session.commit(
        Commit(
            SessionId("a"),
            Epoch(epoch),
            base_len=base,
            base_key=key_of(text[:base]),
            token_ids=token_ids,
            record=RECORD,
            growth=(SPAN,),
        )
    )


def _finish(session: ClientSession, total_len: int, *, epoch: int = 1) -> Reconciled:
    return session.finish(Finished(SessionId("a"), Epoch(epoch), total_len, FinishReason.STOP))


def test_each_opening_has_a_higher_epoch_and_all_the_text(session: ClientSession) -> None:
    _commit(session, 3, 5, 6)
    opening = session.open()
    assert opening.epoch == 2
    assert opening.token_ids == (*PROMPT, 5, 6)
    assert opening.prompt_len == 3


def test_contiguous_commits_extend_the_text(session: ClientSession) -> None:
    assert _commit(session, 3, 5) is Reconciled.CONTINUE
    assert _commit(session, 4, 6, 7) is Reconciled.CONTINUE
    assert session.output_token_ids == (5, 6, 7)
    assert (session.rounds, session.growth) == ([RECORD] * 2, [SPAN] * 2)


def test_a_duplicate_changes_nothing(session: ClientSession) -> None:
    _commit(session, 3, 5, 6)
    assert _commit(session, 3, 5, 6) is Reconciled.CONTINUE
    assert session.output_token_ids == (5, 6)
    assert session.rounds == [RECORD]


def test_an_overlap_adds_what_is_missing(session: ClientSession) -> None:
    _commit(session, 3, 5)
    assert _commit(session, 3, 5, 6) is Reconciled.CONTINUE
    assert session.output_token_ids == (5, 6)


def test_a_gap_asks_for_a_new_opening_and_changes_nothing(session: ClientSession) -> None:
    assert _commit(session, 4, 6) is Reconciled.OPEN
    assert session.output_token_ids == ()


def test_another_text_before_the_commit_asks_for_a_new_opening(session: ClientSession) -> None:
    message = Commit(SessionId("a"), Epoch(1), 3, key_of((3, 1, 5)), (5,))
    assert session.commit(message) is Reconciled.OPEN
    assert session.output_token_ids == ()


@pytest.mark.parametrize("epoch", [0, 2])
def test_another_epoch_is_stale(session: ClientSession, epoch: int) -> None:
    assert _commit(session, 3, 5, epoch=epoch) is Reconciled.STALE
    assert _finish(session, 3, epoch=epoch) is Reconciled.STALE
    assert session.output_token_ids == ()
    assert not session.is_finished


@pytest.mark.parametrize(
    ("base", "token_ids"), [(3, (7,)), (3, (5, 7, 8)), (2, (9, 5)), (-1, (5,))]
)
def test_a_commit_that_contradicts_the_books_raises_and_changes_nothing(
    session: ClientSession, base: int, token_ids: tuple[int, ...]
) -> None:
    _commit(session, 3, 5, 6)
    with pytest.raises(ProtocolError, match="contradicts"):
        _commit(session, base, *token_ids)
    assert session.output_token_ids == (5, 6)


def test_the_end_is_the_end_when_all_tokens_are_here(session: ClientSession) -> None:
    _commit(session, 3, 5, 6)
    assert _finish(session, 5) is Reconciled.CONTINUE
    assert session.finish_reason is FinishReason.STOP


def test_an_end_with_missing_tokens_asks_for_a_new_opening(session: ClientSession) -> None:
    _commit(session, 3, 5)
    assert _finish(session, 5) is Reconciled.OPEN
    assert not session.is_finished


def test_nothing_is_taken_after_the_end(session: ClientSession) -> None:
    _commit(session, 3, 5)
    _finish(session, 4)
    assert _commit(session, 4, 6) is Reconciled.STALE
    assert _finish(session, 4) is Reconciled.STALE
    assert session.output_token_ids == (5,)


def test_books_that_end_with_a_stop_token_settle_themselves(session: ClientSession) -> None:
    _commit(session, 3, 5, STOP)
    assert session.settle_locally() is FinishReason.STOP
    assert session.is_finished


def test_full_books_settle_themselves(session: ClientSession) -> None:
    _commit(session, 3, 5, 5, 5, 5, 5)
    assert session.settle_locally() is FinishReason.LENGTH


def test_a_stop_at_the_limit_is_a_stop(session: ClientSession) -> None:
    _commit(session, 3, 5, 5, 5, 5, STOP)
    assert session.settle_locally() is FinishReason.STOP


def test_books_without_an_end_stay_open(session: ClientSession) -> None:
    assert session.settle_locally() is None
    _commit(session, 3, 5)
    assert session.settle_locally() is None
    assert not session.is_finished


def test_a_stop_token_in_the_prompt_ends_nothing() -> None:
    admission = Admission(
        SessionId("a"), (1, STOP), 8, SamplingParams(), frozenset({STOP}), Mode.AR
    )
    assert ClientSession(admission).settle_locally() is None
