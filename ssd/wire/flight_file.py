"""Flight records as files: msgpack, readable by this user alone.

Without token ids every list of them is a count, and neither keys nor the seed are written: a key
gives its last token away to whoever has the one before it. Such a record is checked by its lengths.
"""

import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgpack
from google.protobuf.message import DecodeError

from ssd.core.errors import InvalidRequest, ProtocolError
from ssd.core.expansion import Expansion
from ssd.core.flight_recorder import (
    Checkpoint,
    Drawn,
    Ended,
    Event,
    Failed,
    Grown,
    Launched,
    Segment,
    Settled,
)
from ssd.core.ids import PrefixKey
from ssd.core.messages import FinishReason, Open
from ssd.core.replay import Replayed, replay, replay_lengths
from ssd.core.sampling_params import SamplingParams
from ssd.v1 import common_pb2
from ssd.wire.codec import decode_open, encode_open

FORMAT = "ssd-flight-1"
_MAX_FILES = 64
_UNREADABLE = (
    *(ValueError, TypeError, KeyError, IndexError),
    *(msgpack.UnpackException, DecodeError, ProtocolError),
)
TokenIds = list[int] | int
"""Ids, or how many there were."""


@dataclass(frozen=True, slots=True)
class FlightFile:
    """What a file holds."""

    session_id: str
    reason: str
    with_tokens: bool
    segments: tuple[Segment, ...]

    def replay(self) -> Replayed:
        """Play it on the core, or check the lengths where that is all there is."""
        return replay(self.segments) if self.with_tokens else replay_lengths(self.segments)


def pack(session_id: str, segments: Sequence[Segment], *, reason: str, with_tokens: bool) -> bytes:
    """A record as the content of a file."""
    writer = _Writer(with_tokens=with_tokens)
    packed: bytes = msgpack.packb(
        {
            "format": FORMAT,
            "session_id": session_id,
            "reason": reason,
            "with_tokens": with_tokens,
            "segments": [writer.segment(each) for each in segments],
        }
    )
    return packed


def unpack(content: bytes) -> FlightFile:
    """Raises InvalidRequest for anything that is not a flight record of this version."""
    try:
        values = msgpack.unpackb(content)
        if values["format"] != FORMAT:
            raise InvalidRequest(f"a flight record of format {values['format']}, not {FORMAT}")
        segments = tuple(_segment(each) for each in values["segments"])
        return FlightFile(
            values["session_id"], values["reason"], bool(values["with_tokens"]), segments
        )
    except _UNREADABLE as error:
        raise InvalidRequest(f"this is no flight record: {error}") from error


def write_records(
    folder: Path,
    records: Iterable[tuple[str, Sequence[Segment]]],
    *,
    reason: str,
    with_tokens: bool,
) -> list[Path]:
    """Write one file per session, and drop the oldest beyond a bound; for a process that dies."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = []
    for number, (session_id, segments) in enumerate(records):
        path = folder / f"{time.time_ns()}-{os.getpid()}-{number}.flight"
        write_private(path, pack(session_id, segments, reason=reason, with_tokens=with_tokens))
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


class _Writer:
    def __init__(self, *, with_tokens: bool) -> None:
        self._with_tokens = with_tokens

    def segment(self, segment: Segment) -> list[Any]:
        return [
            self._checkpoint(segment.checkpoint),
            [self._event(each) for each in segment.events],
        ]

    def _ids(self, token_ids: Iterable[int]) -> TokenIds:
        listed = list(token_ids)
        return listed if self._with_tokens else len(listed)

    def _checkpoint(self, checkpoint: Checkpoint) -> list[Any]:
        return [
            self._opening(checkpoint.opening),
            checkpoint.kv_len,
            [self._expansion(each) for each in checkpoint.expansions],
        ]

    def _opening(self, opening: Open) -> bytes:
        if not self._with_tokens:
            opening = replace(
                opening,
                token_ids=(0,) * len(opening.token_ids),
                stop_token_ids=frozenset(),
                params=SamplingParams(),
            )
        serialized: bytes = encode_open(opening).SerializeToString()
        return serialized

    def _expansion(self, expansion: Expansion) -> list[Any]:
        key = expansion.key if self._with_tokens else 0
        ids, estimates = self._ids(expansion.token_ids), list(expansion.estimates)
        return [key, expansion.position, ids, estimates, expansion.step]

    def _event(self, event: Event) -> list[Any]:
        match event:
            case Grown():
                return ["grown", [self._expansion(each) for each in event.expansions]]
            case Launched():
                ids = self._ids(event.token_ids)
                return ["launched", event.round_id, ids, list(event.parents)]
            case Drawn():
                return ["drawn", event.round_id, self._ids(event.target_token_ids)]
            case Settled():
                reason = None if event.finish_reason is None else event.finish_reason.value
                lengths = (event.committed_len, event.kv_len)
                return ["settled", self._ids(event.emitted), reason, *lengths]
            case Failed():
                return ["failed", event.round_id]
            case Ended():
                return ["ended"]


def _segment(values: list[Any]) -> Segment:
    opening, kv_len, expansions = values[0]
    found = tuple(_expansion(each) for each in expansions)
    opened = decode_open(common_pb2.Open.FromString(opening))
    checkpoint = Checkpoint(opened, kv_len, found)
    return Segment(checkpoint, [_event(each) for each in values[1]])


def _ids(values: TokenIds) -> tuple[int, ...]:
    return (0,) * values if isinstance(values, int) else tuple(values)


def _expansion(values: list[Any]) -> Expansion:
    key, position, token_ids, estimates, step = values
    return Expansion(PrefixKey(key), position, _ids(token_ids), tuple(estimates), step)


def _event(values: list[Any]) -> Event:
    match values:
        case ["grown", expansions]:
            return Grown(tuple(_expansion(each) for each in expansions))
        case ["launched", round_id, token_ids, parents]:
            return Launched(round_id, _ids(token_ids), tuple(parents))
        case ["drawn", round_id, token_ids]:
            return Drawn(round_id, _ids(token_ids))
        case ["settled", emitted, reason, committed_len, kv_len]:
            finish_reason = None if reason is None else FinishReason(reason)
            return Settled(_ids(emitted), finish_reason, committed_len, kv_len)
        case ["failed", round_id]:
            return Failed(round_id)
        case ["ended"]:
            return Ended()
    raise ValueError(f"an event of a kind that this version does not know: {values!r:.60}")
