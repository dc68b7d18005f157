"""A verifier's flight records in a file."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ssd.core.drafter_kind import DrafterKind
from ssd.core.expansion import Expansion
from ssd.core.flight_recorder import Segment
from ssd.core.ids import PrefixKey
from ssd.core.messages import FinishReason, Open
from ssd.core.replay import Replayed, replay
from ssd.core.sampling_params import SamplingParams
from ssd.core.verifier_flight import Checkpoint, Drawn, Event, Failed, Grown, Launched, Settled
from ssd.core.verifier_replay import VerifierMeasure, VerifierPlayer
from ssd.v1 import common_pb2
from ssd.wire.codec import decode_open, encode_open
from ssd.wire.flight_values import IdWriter, read_ids


class VerifierFlightFormat:
    """See `ssd.wire.flight_values.FlightFormat`."""

    def write_checkpoint(self, checkpoint: Checkpoint, ids: IdWriter) -> list[Any]:
        return [
            write_opening(checkpoint.opening, ids),
            checkpoint.kv_len,
            [_write_expansion(each, ids) for each in checkpoint.expansions],
        ]

    def write_event(self, event: Event, ids: IdWriter) -> list[Any]:
        match event:
            case Grown():
                return ["grown", [_write_expansion(each, ids) for each in event.expansions]]
            case Launched():
                return ["launched", event.round_id, ids.ids(event.token_ids), list(event.parents)]
            case Drawn():
                return ["drawn", event.round_id, ids.ids(event.target_token_ids)]
            case Settled():
                reason = None if event.finish_reason is None else event.finish_reason.value
                lengths = (event.committed_len, event.kv_len)
                return ["settled", ids.ids(event.emitted), reason, *lengths]
            case Failed():
                return ["failed", event.round_id]

    def read_checkpoint(self, values: list[Any]) -> Checkpoint:
        opening, kv_len, expansions = values
        found = tuple(_read_expansion(each) for each in expansions)
        return Checkpoint(read_opening(opening), kv_len, found)

    def read_event(self, values: list[Any]) -> Event:
        match values:
            case ["grown", expansions]:
                return Grown(tuple(_read_expansion(each) for each in expansions))
            case ["launched", round_id, token_ids, parents]:
                return Launched(round_id, read_ids(token_ids), tuple(parents))
            case ["drawn", round_id, token_ids]:
                return Drawn(round_id, read_ids(token_ids))
            case ["settled", emitted, reason, committed_len, kv_len]:
                finish_reason = None if reason is None else FinishReason(reason)
                return Settled(read_ids(emitted), finish_reason, committed_len, kv_len)
            case ["failed", round_id]:
                return Failed(round_id)
        raise ValueError(f"an event of a kind that this version does not know: {values!r:.60}")

    def replay(
        self, segments: Sequence[Segment[Checkpoint, Event]], *, with_tokens: bool
    ) -> Replayed:
        return replay(segments, VerifierPlayer if with_tokens else VerifierMeasure)


def write_opening(opening: Open, ids: IdWriter) -> bytes:
    """Without tokens neither the seed nor anything else that the text depends on."""
    if not ids.with_tokens:
        opening = replace(
            opening,
            token_ids=(0,) * len(opening.token_ids),
            stop_token_ids=frozenset(),
            params=SamplingParams(),
        )
    serialized: bytes = encode_open(opening).SerializeToString()
    return serialized


def read_opening(content: bytes) -> Open:
    return decode_open(common_pb2.Open.FromString(content))


def _write_expansion(expansion: Expansion, ids: IdWriter) -> list[Any]:
    key, token_ids = ids.key(expansion.key), ids.ids(expansion.token_ids)
    estimates, source = list(expansion.estimates), expansion.source.value
    return [key, expansion.position, token_ids, estimates, expansion.step, source]


def _read_expansion(values: list[Any]) -> Expansion:
    key, position, token_ids, estimates, step, *source = values
    return Expansion(
        PrefixKey(key),
        position,
        read_ids(token_ids),
        tuple(estimates),
        step,
        source=DrafterKind(source[0]) if source else DrafterKind.MODEL,  # of older files
    )
