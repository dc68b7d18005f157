"""Flight records as files: msgpack, readable by this user alone.

Without token ids every list of them is a count, and neither keys nor the seed are written: a key
gives its last token away to whoever has the one before it. Such a record is checked by its lengths.
"""

import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import structlog
from google.protobuf.message import DecodeError

from ssd.core.errors import InvalidRequest, ProtocolError
from ssd.core.flight_recorder import Ended, Segment
from ssd.core.replay import Replayed
from ssd.wire.books_flight_format import BooksFlightFormat
from ssd.wire.drafter_flight_format import DrafterFlightFormat
from ssd.wire.flight_values import FlightFormat, IdWriter
from ssd.wire.verifier_flight_format import VerifierFlightFormat

log = structlog.get_logger()
FORMAT = "ssd-flight-1"
VERIFIER, DRAFTER, COORDINATOR = "verifier", "drafter", "coordinator"
_FORMATS: Mapping[str, FlightFormat] = {
    VERIFIER: VerifierFlightFormat(),
    DRAFTER: DrafterFlightFormat(),
    COORDINATOR: BooksFlightFormat(),
}
_MAX_FILES = 64
_ENDED = ["ended"]
_UNREADABLE = (
    *(ValueError, TypeError, KeyError, IndexError),
    *(msgpack.UnpackException, DecodeError, ProtocolError),
)


@dataclass(frozen=True, slots=True)
class FlightFile:
    """What a file holds; `role` is the service whose core it is of."""

    role: str
    session_id: str
    reason: str
    with_tokens: bool
    segments: tuple[Segment[Any, Any], ...]

    def replay(self) -> Replayed:
        """Play it on the core, or check the lengths where that is all there is."""
        return _FORMATS[self.role].replay(self.segments, with_tokens=self.with_tokens)


def pack(
    session_id: str,
    segments: Sequence[Segment[Any, Any]],
    *,
    reason: str,
    with_tokens: bool,
    role: str = VERIFIER,
) -> bytes:
    """A record as the content of a file."""
    written, ids = _FORMATS[role], IdWriter(with_tokens=with_tokens)
    packed: bytes = msgpack.packb(
        {
            "format": FORMAT,
            "role": role,
            "session_id": session_id,
            "reason": reason,
            "with_tokens": with_tokens,
            "segments": [
                [
                    written.write_checkpoint(segment.checkpoint, ids),
                    [
                        _ENDED if isinstance(event, Ended) else written.write_event(event, ids)
                        for event in segment.events
                    ],
                ]
                for segment in segments
            ],
        }
    )
    return packed


def unpack(content: bytes) -> FlightFile:
    """Raises InvalidRequest for anything that is not a flight record of this version."""
    try:
        values = msgpack.unpackb(content)
        if values["format"] != FORMAT:
            raise InvalidRequest(f"a flight record of format {values['format']}, not {FORMAT}")
        role = values.get("role", VERIFIER)  # the first to write records, without a word of it
        segments = tuple(_segment(_FORMATS[role], *each) for each in values["segments"])
        with_tokens = bool(values["with_tokens"])
        return FlightFile(role, values["session_id"], values["reason"], with_tokens, segments)
    except _UNREADABLE as error:
        raise InvalidRequest(f"this is no flight record: {error}") from error


def _segment(
    written: FlightFormat, checkpoint: list[Any], events: list[list[Any]]
) -> Segment[Any, Any]:
    return Segment(
        written.read_checkpoint(checkpoint),
        [Ended() if each == _ENDED else written.read_event(each) for each in events],
    )


@dataclass(frozen=True, slots=True)
class FlightStore:
    """Where a process leaves the records of what broke."""

    folder: Path
    with_tokens: bool
    role: str

    def leave(self, records: Iterable[tuple[str, Sequence[Segment[Any, Any]]]], why: str) -> None:
        """Write records, or say in the log why that cannot be done."""
        try:
            written = write_records(
                self.folder, records, reason=why, with_tokens=self.with_tokens, role=self.role
            )
            log.error("flight records", reason=why, files=[str(each) for each in written])
        except OSError as error:
            log.error("no flight records", reason=why, failure=str(error))


def write_records(
    folder: Path,
    records: Iterable[tuple[str, Sequence[Segment[Any, Any]]]],
    *,
    reason: str,
    with_tokens: bool,
    role: str = VERIFIER,
) -> list[Path]:
    """Write one file per session, and drop the oldest beyond a bound; for a process that dies."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = []
    for number, (session_id, segments) in enumerate(records):
        path = folder / f"{time.time_ns()}-{os.getpid()}-{number}.flight"
        content = pack(session_id, segments, reason=reason, with_tokens=with_tokens, role=role)
        write_private(path, content)
        written.append(path)
    for old in sorted(folder.glob("*.flight"))[:-_MAX_FILES]:
        old.unlink(missing_ok=True)
    return written


def flight_dir(configured: str | None) -> Path:
    """The configured folder, or one of this user's in the system's temporary one."""
    if configured is not None:
        return Path(configured).expanduser()
    return Path(tempfile.gettempdir()) / f"ssd-flight-{os.getuid()}"


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only this user can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
