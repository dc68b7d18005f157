"""The journal: what is written comes back, whatever a crash did to its end."""

import asyncio
import errno
import os
import stat
from pathlib import Path

import pytest

from coordinator import journal as journal_module
from coordinator.journal import FileJournal, FsyncPolicy, JournalLimits
from coordinator.journal_records import (
    Admitted,
    Committed,
    Ended,
    Forgotten,
    Opened,
    Record,
    frame,
    read_frames,
)
from ssd.core.client_session import Admission
from ssd.core.errors import ConfigError, NoCapacity, Unavailable
from ssd.core.ids import Epoch, SessionId
from ssd.core.messages import FinishReason
from ssd.core.mode import Mode
from ssd.core.sampling_params import SamplingParams

PROMPT = (1, 2, 3)
A = SessionId("a")


def limits(
    *, fsync: FsyncPolicy = FsyncPolicy.NEVER, max_bytes: int = 10**6, max_age_s: float = 100.0
) -> JournalLimits:
    return JournalLimits(fsync, max_bytes, max_age_s, erase_s=0.0)


def admitted(session_id: SessionId = A, *, at_s: float = 1000.0) -> Admitted:
    admission = Admission(
        session_id=session_id,
        prompt_token_ids=PROMPT,
        max_len=90,
        params=SamplingParams(temperature=0.5, top_p=0.9, seed=2**64 - 1),
        stop_token_ids=frozenset({7, 9}),
        mode=Mode.SD,
    )
    return Admitted(admission, "kind", at_s)


RECORDS: tuple[Record, ...] = (
    admitted(),
    Opened(A, Epoch(2**40), "process"),
    Committed(A, 0, (4, 5)),
    Committed(A, 2, (6, 4_000_000_000)),
    Ended(A, FinishReason.STOP, 1001.5),
)


def open_journal(folder: Path, **values: int | float | FsyncPolicy) -> FileJournal:
    return FileJournal(folder, limits(**values), wall=lambda: 1000.0)  # type: ignore[arg-type]


def write_all(folder: Path, *records: Record) -> None:
    journal = open_journal(folder)
    for record in records:
        journal.write(record)
    let_go(journal)


def let_go(journal: FileJournal) -> None:
    """As a kill does: nothing is written any more."""
    os.close(journal._file)
    os.close(journal._lock)


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("*.journal")
    return path


@pytest.mark.parametrize("record", [*RECORDS, Forgotten(A)], ids=lambda each: type(each).__name__)
def test_every_record_comes_back_as_it_was(record: Record) -> None:
    ((back, end),) = read_frames(frame(record))
    assert back == record
    assert end == len(frame(record))


async def test_sessions_come_back_with_their_books(tmp_path: Path) -> None:
    write_all(tmp_path, *RECORDS[:4])
    journal = open_journal(tmp_path)
    (session,) = journal.sessions
    books = session.books()
    assert books.admission == admitted().admission
    assert books.output_token_ids == (4, 5, 6, 4_000_000_000)
    assert (books.epoch, session.instance_id) == (2**40, "process")
    assert not books.is_finished
    journal.close()


async def test_a_journal_cut_at_any_byte_of_its_last_record_loses_that_record_at_most(
    tmp_path: Path,
) -> None:
    write_all(tmp_path / "whole", *RECORDS[:4])
    content = only_file(tmp_path / "whole").read_bytes()
    last = len(frame(RECORDS[3]))
    for cut in range(last + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "000000000001.journal").write_bytes(content[: len(content) - cut])
        journal = open_journal(folder)
        (session,) = journal.sessions
        assert session.output_token_ids == ([4, 5, 6, 4_000_000_000] if not cut else [4, 5])
        assert journal.num_damaged_bytes == (last - cut if cut else 0)
        journal.write(Committed(A, 2, (8,)))  # it goes on behind what was whole
        let_go(journal)
        again = open_journal(folder)
        assert again.sessions[0].output_token_ids[:3] == [4, 5, 8]
        let_go(again)


async def test_any_damaged_byte_ends_the_reading_there(tmp_path: Path) -> None:
    write_all(tmp_path / "whole", *RECORDS[:4])
    content = only_file(tmp_path / "whole").read_bytes()
    start = len(frame(RECORDS[0])) + len(frame(RECORDS[1]))
    for position in range(start, len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0x20
        ends = [end for _, end in read_frames(bytes(damaged))]
        assert ends
        assert max(ends) <= position


async def test_what_is_forgotten_leaves_the_disk(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    other = SessionId("other")
    for record in (*RECORDS, admitted(other)):
        journal.write(record)
    journal.write(Forgotten(A))
    assert b"\xa1a" in only_file(tmp_path).read_bytes()
    tidying = asyncio.create_task(journal.tidy())
    async with asyncio.timeout(20):
        while b"\xa1a\x93" in only_file(tmp_path).read_bytes() or len(read(tmp_path)) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    tidying.cancel()
    assert [each.session_id for each in read(tmp_path)] == [other]
    journal.close()


def read(folder: Path) -> list[Record]:
    return [record for record, _ in read_frames(only_file(folder).read_bytes())]


async def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "new")
    journal.write(admitted())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    journal.close()


async def test_a_file_that_grew_too_large_is_begun_anew_with_what_is_known(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, max_bytes=2000)
    journal.write(admitted())
    for index in range(100):
        journal.write(Committed(A, index, (index,)))
        journal.write(Opened(A, Epoch(index + 1), "process"))
    assert only_file(tmp_path).stat().st_size <= 2000
    journal.close()
    (session,) = open_journal(tmp_path).sessions
    assert session.output_token_ids == list(range(100))
    assert session.epoch == 100


async def test_running_sessions_beyond_the_limit_keep_new_ones_out(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, max_bytes=300)
    journal.check_room()
    journal.write(admitted())
    journal.write(Committed(A, 0, tuple(range(300))))
    with pytest.raises(NoCapacity, match="limit of 300"):
        journal.check_room()
    journal.write(Forgotten(A))
    journal.check_room()
    journal.close()


async def test_nothing_stays_beyond_the_age_limit(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, max_age_s=50.0)
    journal.write(admitted(at_s=960.0))
    journal.write(admitted(SessionId("old"), at_s=940.0))
    journal.forget_old(1000.0)
    assert [each.admitted.session_id for each in journal.sessions] == [A]
    journal.close()


async def test_one_coordinator_at_a_time_has_the_folder_and_keeps_its_name(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    with pytest.raises(ConfigError, match="another coordinator uses"):
        open_journal(tmp_path)
    identity = journal.identity
    journal.close()
    again = open_journal(tmp_path)
    assert again.identity == identity
    again.close()


async def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"):
        open_journal(tmp_path / "file" / "below")


async def test_policy_always_waits_for_the_disk_and_shares_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_journal(tmp_path, fsync=FsyncPolicy.ALWAYS)
    syncs: list[int] = []
    monkeypatch.setattr(journal_module.os, "fdatasync", syncs.append)
    journal.write(admitted())
    await asyncio.gather(*(journal.settled() for _ in range(20)))
    assert len(syncs) == 1
    journal.write(Committed(A, 0, (1,)))
    await journal.settled()
    assert len(syncs) == 2
    journal.close()


async def test_a_full_disk_fails_the_write_and_leaves_the_rest_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_journal(tmp_path)
    journal.write(admitted())
    write = os.write

    def half_a_write(file: int, content: bytes) -> int:
        if len(content) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, content[: len(content) - 9])

    monkeypatch.setattr(journal_module.os, "write", half_a_write)
    with pytest.raises(Unavailable, match="No space left"):
        journal.write(Committed(A, 0, (1, 2, 3)))
    monkeypatch.undo()
    journal.write(Committed(A, 0, (1,)))
    let_go(journal)
    (session,) = open_journal(tmp_path).sessions
    assert session.output_token_ids == [1]
