"""Flight records survive the file, are private, and name token ids only where that was asked."""

from pathlib import Path

import msgpack
import pytest

from ssd.core.books_flight import Booked
from ssd.core.errors import InvalidRequest
from ssd.core.verifier_flight import Settled
from ssd.wire.flight_file import COORDINATOR, FORMAT, pack, unpack, write_records
from tests.core.test_books_replay import eventful
from tests.core.test_replay import PROMPT, SESSION, flown

RECORD = flown(60).flights.record_of(SESSION)


def test_a_record_comes_back_as_it_went() -> None:
    file = unpack(pack(SESSION, RECORD, reason="asked", with_tokens=True))
    assert file.segments == tuple(RECORD)
    assert (file.session_id, file.reason) == (SESSION, "asked")
    replayed = file.replay()
    assert replayed.difference is None
    assert replayed.num_tokens == 60


def test_without_tokens_no_id_no_key_and_no_seed_is_written() -> None:
    file = unpack(pack(SESSION, RECORD, reason="asked", with_tokens=False))
    [segment, *_] = file.segments
    assert set(segment.checkpoint.opening.token_ids) == {0}
    assert len(segment.checkpoint.opening.token_ids) == len(PROMPT)
    emitted = [each.emitted for each in segment.events if isinstance(each, Settled)]
    assert {token_id for ids in emitted for token_id in ids} == {0}
    keys = {e.key for event in segment.events for e in getattr(event, "expansions", ())}
    assert keys == {0}
    assert file.replay().num_tokens == 60
    assert file.replay().difference is None


def test_the_books_come_back_as_they_went() -> None:
    record = eventful()
    packed = pack(SESSION, record, reason="asked", with_tokens=True, role=COORDINATOR)
    file = unpack(packed)
    assert file.segments == tuple(record)
    assert file.role == COORDINATOR
    assert file.replay().difference is None


def test_the_books_without_tokens_say_lengths_alone() -> None:
    packed = pack(SESSION, eventful(), reason="asked", with_tokens=False, role=COORDINATOR)
    file = unpack(packed)
    booked = [each for part in file.segments for each in part.events if isinstance(each, Booked)]
    assert {token_id for each in booked for token_id in each.token_ids} == {0}
    assert {each.base_key for each in booked} == {0}
    assert (file.replay().difference, file.replay().num_tokens) == (None, 302)


def test_files_are_private_and_their_number_is_bounded(tmp_path: Path) -> None:
    folder = tmp_path / "flights"
    for _ in range(70):
        [path] = write_records(folder, [(SESSION, RECORD)], reason="test", with_tokens=True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(list(folder.iterdir())) == 64
    assert unpack(path.read_bytes()).replay().difference is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        msgpack.packb([1, 2]),
        msgpack.packb({"format": "ssd-flight-9"}),
        msgpack.packb({"format": FORMAT, "session_id": "s", "reason": "", "with_tokens": True}),
        pack(SESSION, RECORD, reason="cut", with_tokens=True)[:-20],
    ],
)
def test_what_is_no_record_is_refused_with_words(content: bytes) -> None:
    with pytest.raises(InvalidRequest, match="flight record"):
        unpack(content)
