"""What a journal says, record by record, and how a record lies in a file.

    frame = length (4 bytes) · CRC-32 (4 bytes) · msgpack [kind, session id, fields...]

A file is written from its start to its end and nowhere else, so the only damage a crash can do is
to its tail: reading ends at the first frame that is cut short or whose checksum is wrong.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgpack
from pydantic import TypeAdapter

from ssd.core.client_session import Admission
from ssd.core.errors import ProtocolError
from ssd.core.ids import Epoch, SessionId
from ssd.core.messages import FinishReason

_HEAD = struct.Struct(">II")
_ADMISSION: TypeAdapter[Admission] = TypeAdapter(Admission)


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request with every parameter filled in; `at_s` is wall time."""

    admission: Admission
    fingerprint: str
    at_s: float

    @property
    def session_id(self) -> SessionId:
        return self.admission.session_id


@dataclass(frozen=True, slots=True)
class Opened:
    """The session is about to be opened on a verifier's process under this epoch."""

    session_id: SessionId
    epoch: Epoch
    instance_id: str


@dataclass(frozen=True, slots=True)
class Committed:
    """Output tokens from output index `base` on."""

    session_id: SessionId
    base: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """The text is complete."""

    session_id: SessionId
    reason: FinishReason
    at_s: float


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Nobody can ask for the session any more."""

    session_id: SessionId


Record = Admitted | Opened | Committed | Ended | Forgotten


def frame(record: Record) -> bytes:
    """The bytes of one record in a file."""
    payload: bytes = msgpack.packb(_fields(record))
    return _HEAD.pack(len(payload), zlib.crc32(payload)) + payload


def read_frames(content: bytes) -> Iterator[tuple[Record, int]]:
    """Each whole record with the offset of its end; ends where the file is damaged."""
    start = 0
    while start + _HEAD.size <= len(content):
        length, checksum = _HEAD.unpack_from(content, start)
        end = start + _HEAD.size + length
        payload = content[start + _HEAD.size : end]
        if len(payload) < length or zlib.crc32(payload) != checksum:
            return
        yield _record(msgpack.unpackb(payload, strict_map_key=False)), end
        start = end


def _fields(record: Record) -> list[object]:
    match record:
        case Admitted():
            admission = _ADMISSION.dump_python(record.admission, mode="json")
            return ["admitted", record.session_id, admission, record.fingerprint, record.at_s]
        case Opened():
            return ["opened", record.session_id, record.epoch, record.instance_id]
        case Committed():
            return ["committed", record.session_id, record.base, list(record.token_ids)]
        case Ended():
            return ["ended", record.session_id, record.reason.value, record.at_s]
        case Forgotten():
            return ["forgotten", record.session_id]


def _record(fields: list[object]) -> Record:
    """Raises ProtocolError for a record of another version."""
    match fields:
        case ["admitted", str(), dict() as admission, str(fingerprint), float(at_s)]:
            return Admitted(_ADMISSION.validate_python(admission), fingerprint, at_s)
        case ["opened", str(session_id), int(epoch), str(instance_id)]:
            return Opened(SessionId(session_id), Epoch(epoch), instance_id)
        case ["committed", str(session_id), int(base), list() as token_ids]:
            return Committed(SessionId(session_id), base, tuple(token_ids))
        case ["ended", str(session_id), str(reason), float(at_s)]:
            return Ended(SessionId(session_id), FinishReason(reason), at_s)
        case ["forgotten", str(session_id)]:
            return Forgotten(SessionId(session_id))
        case _:
            raise ProtocolError(f"a journal record of another version: {fields[:1]}")
