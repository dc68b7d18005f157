"""The coordinator's journal: what a restarted coordinator needs to go on with its sessions.

    DIR/lock        one coordinator at a time
    DIR/identity    the name under which verifiers know this coordinator, over restarts
    DIR/N.journal   records (`coordinator.journal_records`), N rising; the last one is appended to

A record is written before what it says is done: an epoch before it is used, tokens before a client
sees them. Every file begins with what was known when it was begun, so older ones can go: that is
how the texts of forgotten sessions leave the disk. Files are readable by their owner alone.
"""

import asyncio
import contextlib
import fcntl
import os
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import structlog

from coordinator.journal_records import Forgotten, Record, frame, read_frames
from coordinator.journal_state import JournalledSession, JournalState
from ssd.core.errors import ConfigError, NoCapacity, Unavailable

_SUFFIX = ".journal"
_TIDY_EVERY_S = 1.0
log = structlog.get_logger()


class FsyncPolicy(StrEnum):
    """When records reach the disk itself; a crash of the process alone loses none either way."""

    ALWAYS = "always"  # before a client sees what they say
    INTERVAL = "interval"  # about once a second
    NEVER = "never"  # when the system likes


@dataclass(frozen=True, slots=True)
class JournalLimits:
    """Bytes of one file, seconds that anything is kept, and until a forgotten text is erased."""

    fsync: FsyncPolicy
    max_bytes: int
    max_age_s: float
    erase_s: float


class Journal(Protocol):
    """Where the session table writes things down."""

    def write(self, record: Record) -> None:
        """Append a record.

        Raises:
            Unavailable: it cannot be written.
        """
        ...

    def check_room(self) -> None:
        """Raises NoCapacity when no further session should be admitted."""
        ...

    async def settled(self) -> None:
        """Until all records so far are as safe as the policy promises."""
        ...


class NoJournal:
    """Sessions live as long as the process."""

    def write(self, record: Record) -> None:
        return

    def check_room(self) -> None:
        return

    async def settled(self) -> None:
        return


class FileJournal:
    """Owns a folder; lives on one event loop."""

    def __init__(
        self, folder: Path, limits: JournalLimits, *, wall: Callable[[], float] = time.time
    ) -> None:
        """Read what an earlier life left and begin a new file.

        Raises:
            ConfigError: the folder cannot be used, or another coordinator uses it.
        """
        self.num_damaged_bytes = 0
        self._folder, self._limits, self._wall = folder, limits, wall
        self._state = JournalState()
        self._num_bytes = 0
        self._must_erase_at: float | None = None
        self._num_written = self._num_synced = 0
        self._syncing = asyncio.Lock()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _lock(folder / "lock")
            self.identity = _identity(folder / "identity")
            self._number = self._read_all()
            self._file = -1
            self._begin_file()
        except OSError as error:
            raise ConfigError(f"the journal folder {folder} cannot be used: {error}") from error

    @property
    def sessions(self) -> list[JournalledSession]:
        """Every session that is not forgotten."""
        return list(self._state.sessions.values())

    def write(self, record: Record) -> None:
        content = frame(record)
        try:
            _write_all(self._file, content)
        except OSError as error:
            with contextlib.suppress(OSError):  # what follows half a frame could not be read
                os.ftruncate(self._file, self._num_bytes)
            raise Unavailable(f"the journal cannot be written: {error}") from error
        self._state.apply(record)
        self._num_bytes += len(content)
        self._num_written += 1
        if isinstance(record, Forgotten) and self._must_erase_at is None:
            self._must_erase_at = self._wall() + self._limits.erase_s
        if self._num_bytes > self._limits.max_bytes:
            self._begin_file()

    def check_room(self) -> None:
        if self._num_bytes > self._limits.max_bytes:  # even with nothing but live sessions
            raise NoCapacity(
                f"the journal holds {self._num_bytes} bytes of running sessions, more than its "
                f"limit of {self._limits.max_bytes}"
            )

    async def settled(self) -> None:
        if self._limits.fsync is FsyncPolicy.ALWAYS:
            wanted = self._num_written
            while self._num_synced < wanted:
                await self._sync()

    async def tidy(self) -> None:
        """Sync, erase and forget as time goes by; runs until cancelled."""
        while True:
            await asyncio.sleep(_TIDY_EVERY_S)
            now = self._wall()
            self.forget_old(now)
            if self._must_erase_at is not None and now >= self._must_erase_at:
                self._begin_file()
            if self._limits.fsync is not FsyncPolicy.NEVER and self._num_synced < self._num_written:
                await self._sync()

    def forget_old(self, now: float) -> None:
        """Nothing stays for longer than the age limit, whatever became of it."""
        for session in self.sessions:
            if now - session.admitted.at_s > self._limits.max_age_s:
                self.write(Forgotten(session.admitted.session_id))

    def close(self) -> None:
        """Write a last file without anything forgotten, and let go of the folder."""
        self._begin_file()
        file, self._file = self._file, -1  # a late write must not find the number's next owner
        os.close(file)
        os.close(self._lock)

    async def _sync(self) -> None:
        """One sync serves all that wrote before it began."""
        async with self._syncing:
            covered = self._num_written
            if self._num_synced >= covered:
                return
            file = os.dup(self._file)  # a new file may be begun meanwhile
            try:
                await asyncio.to_thread(os.fdatasync, file)
            finally:
                os.close(file)
            self._num_synced = max(self._num_synced, covered)

    def _read_all(self) -> int:
        """Apply all files in order; the highest number among them."""
        numbers = sorted(int(path.stem) for path in self._folder.glob(f"*{_SUFFIX}"))
        for number in numbers:
            content = self._path(number).read_bytes()
            end = 0
            for record, end in read_frames(content):  # noqa: B007 (the last one counts)
                self._state.apply(record)
            if end < len(content):
                self.num_damaged_bytes += len(content) - end
                log.warning(
                    "journal tail dropped", file=str(self._path(number)), bytes=len(content) - end
                )
        return numbers[-1] if numbers else 0

    def _begin_file(self) -> None:
        """Start the next file with all that is still known, then remove the older ones."""
        self._number += 1
        path = self._path(self._number)
        draft = path.with_suffix(".new")
        content = b"".join(frame(record) for record in self._state.records())
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        _write_all(file, content)
        if self._limits.fsync is not FsyncPolicy.NEVER:
            os.fdatasync(file)
        draft.rename(path)
        if self._limits.fsync is not FsyncPolicy.NEVER:
            _sync_folder(self._folder)
        if self._file >= 0:
            os.close(self._file)
        self._file, self._num_bytes = file, len(content)
        self._num_synced = self._num_written
        self._must_erase_at = None
        self._remove(each for each in self._folder.glob(f"*{_SUFFIX}") if each != path)

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}{_SUFFIX}"


def _lock(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise ConfigError(f"another coordinator uses the journal folder {path.parent}") from None
    return file


def _identity(path: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        return path.read_text("utf-8").strip()
    identity = uuid.uuid4().hex
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _write_all(file, identity.encode())
    finally:
        os.close(file)
    return identity


def _write_all(file: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
