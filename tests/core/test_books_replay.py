"""The books' flight record plays again to the same end, and a changed one stops at the change."""

from dataclasses import replace

import pytest

from ssd.core.books_flight import Booked, BooksAt, Event, Placed
from ssd.core.books_replay import BooksMeasure, BooksPlayer
from ssd.core.client_session import Admission, Reconciled
from ssd.core.errors import ProtocolError
from ssd.core.flight_recorder import FlightRecorder, Segment
from ssd.core.ids import Epoch, PrefixKey, SessionId
from ssd.core.keys import key_of
from ssd.core.messages import Commit, Finished, FinishReason
from ssd.core.mode import Mode
from ssd.core.recorded_books import RecordedBooks
from ssd.core.replay import replay
from ssd.core.sampling_params import SamplingParams

SESSION = SessionId("a")
PROMPT = (3, 1, 4)
MAX_LEN = 400
Record = list[Segment[BooksAt, Event]]


def recorded_books() -> tuple[RecordedBooks, FlightRecorder[SessionId, BooksAt, Event]]:
    flights = FlightRecorder[SessionId, BooksAt, Event]()
    books = RecordedBooks(
        Admission(SESSION, PROMPT, MAX_LEN, SamplingParams(), frozenset({99}), Mode.SSD)
    )
    books.epoch = Epoch(40)
    books.record_in(flights)
    return books, flights


def commit(books: RecordedBooks, *token_ids: int, base_len: int | None = None) -> Commit:
    text = (*PROMPT, *books.output_token_ids)
    base = len(text) if base_len is None else base_len
    return Commit(SESSION, books.epoch, base, key_of(text[:base]), token_ids)


def eventful() -> Record:
    """Opened, committed, repeated, stale, a gap, moved, finished; two segments and more."""
    books, flights = recorded_books()
    books.open(above=Epoch(41))
    for index in range(150):
        message = commit(books, index % 7, 5)
        assert books.commit(message) is Reconciled.CONTINUE
        if index % 10 == 0:
            assert books.commit(message) is Reconciled.CONTINUE  # says nothing new
            assert books.commit(replace(message, epoch=Epoch(7))) is Reconciled.STALE
    gap = Commit(SESSION, books.epoch, books.committed_len + 3, PrefixKey(1), (9,))
    assert books.commit(gap) is Reconciled.OPEN
    books.open()
    books.commit(commit(books, 1, 99))
    end = Finished(SESSION, books.epoch, books.committed_len, FinishReason.STOP)
    assert books.finish(end) is Reconciled.CONTINUE
    flights.ended(SESSION)
    return list(flights.record_of(SESSION))


def test_a_record_plays_again_to_the_same_end() -> None:
    record = eventful()
    assert len(record) > 1
    for player in (BooksPlayer, BooksMeasure):
        replayed = replay(record, player)
        assert replayed.difference is None
        assert replayed.num_tokens == 302
        assert replayed.num_events == sum(len(each.events) for each in record)


@pytest.mark.parametrize(
    ("kind", "change", "what"),
    [
        (Booked, {"reconciled": Reconciled.STALE}, "what was made of a commit"),
        (Booked, {"token_ids": (6, 6, 6)}, "the length"),
        (Placed, {"epoch": Epoch(3)}, "the epoch"),
    ],
)
def test_a_changed_record_stops_at_the_change(
    kind: type, change: dict[str, object], what: str
) -> None:
    [first, *rest] = eventful()
    index = next(at for at, each in enumerate(first.events) if isinstance(each, kind))
    first.events[index] = replace(first.events[index], **change)  # type: ignore[arg-type]
    difference = replay([first, *rest], BooksPlayer).difference
    assert difference is not None
    assert (difference.segment, difference.event) == (0, index)
    assert what in difference.what


def test_a_checkpoint_that_differs_from_what_led_to_it_is_the_difference() -> None:
    first, second, *rest = eventful()
    other = replace(second.checkpoint, output_token_ids=second.checkpoint.output_token_ids[:-1])
    difference = replay([first, replace(second, checkpoint=other), *rest], BooksPlayer).difference
    assert difference is not None
    assert "the output" in difference.what


def test_a_commit_that_contradicts_the_books_is_in_the_record() -> None:
    books, flights = recorded_books()
    books.open()
    books.commit(commit(books, 1, 2, 3))
    with pytest.raises(ProtocolError):
        books.commit(commit(books, 1, 7, 3, base_len=len(PROMPT)))
    [segment] = flights.record_of(SESSION)
    assert isinstance(segment.events[-1], Booked)
    assert segment.events[-1].reconciled is None
    assert replay([segment], BooksPlayer).difference is None


def test_a_request_id_that_is_used_again_goes_on_in_the_same_record() -> None:
    books, flights = recorded_books()
    books.open()
    books.commit(commit(books, 1, 2))
    flights.ended(SESSION)
    again = RecordedBooks(replace(books.admission, max_len=20))
    again.record_in(flights)
    again.open()
    again.commit(commit(again, 4))
    record = flights.record_of(SESSION)
    assert len(record) == 2
    replayed = replay(record, BooksPlayer)
    assert (replayed.difference, replayed.num_tokens) == (None, 3)


def test_a_client_that_comes_back_goes_on_in_the_same_books() -> None:
    books, flights = recorded_books()
    books.open()
    books.commit(commit(books, 1, 2))
    flights.ended(SESSION)
    books.record_in(flights)
    books.open()
    books.commit(commit(books, 4))
    books.end_output(2)
    record = flights.record_of(SESSION)
    assert [each.checkpoint.is_new for each in record] == [True, False]
    assert replay(record, BooksPlayer).difference is None
    assert replay(record, BooksMeasure).difference is None
