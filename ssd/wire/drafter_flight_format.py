"""A drafter's flight records in a file."""

from collections.abc import Sequence
from typing import Any

from ssd.core.drafter_flight import DraftAt, Event, Expanded, Followed, NodeAt, Stepped, Told
from ssd.core.drafter_replay import DraftMeasure, DraftPlayer
from ssd.core.flight_recorder import Segment
from ssd.core.ids import PrefixKey
from ssd.core.replay import Replayed, replay
from ssd.wire.flight_values import IdWriter, read_ids
from ssd.wire.verifier_flight_format import read_opening, write_opening


class DrafterFlightFormat:
    """See `ssd.wire.flight_values.FlightFormat`."""

    def write_checkpoint(self, checkpoint: DraftAt, ids: IdWriter) -> list[Any]:
        nodes = [
            [
                each.parent,
                each.token_id if ids.with_tokens else 0,
                None if each.candidates is None else ids.ids(each.candidates),
            ]
            for each in checkpoint.nodes
        ]
        opening = write_opening(checkpoint.opening, ids)
        return [opening, checkpoint.kv_len, nodes, checkpoint.is_new]

    def write_event(self, event: Event, ids: IdWriter) -> list[Any]:
        match event:
            case Stepped():
                return ["stepped", event.step, event.num_covered, _keys(event.keys, ids)]
            case Expanded():
                listed = [ids.ids(each) for each in event.candidates]
                return ["expanded", event.step, _keys(event.keys, ids), listed]
            case Followed():
                said = (event.base_len, ids.key(event.base_key), ids.ids(event.token_ids))
                stands = (event.committed_len, event.kv_len, event.num_live)
                return ["followed", *said, event.is_lost, *stands]
            case Told():
                return ["told", event.base_len, list(event.positions), event.is_exhausted]

    def read_checkpoint(self, values: list[Any]) -> DraftAt:
        opening, kv_len, nodes, is_new = values
        run = tuple(_node(each) for each in nodes)
        return DraftAt(read_opening(opening), kv_len, run, is_new)

    def read_event(self, values: list[Any]) -> Event:
        match values:
            case ["stepped", step, num_covered, keys]:
                return Stepped(step, num_covered, _read_keys(keys))
            case ["expanded", step, keys, listed]:
                return Expanded(step, _read_keys(keys), tuple(read_ids(each) for each in listed))
            case ["followed", base_len, key, token_ids, is_lost, *stands]:
                committed_len, kv_len, num_live = stands
                said = (base_len, PrefixKey(key), read_ids(token_ids))
                return Followed(*said, is_lost, committed_len, kv_len, num_live)
            case ["told", base_len, positions, is_exhausted]:
                return Told(base_len, tuple(positions), is_exhausted)
        raise ValueError(f"an event of a kind that this version does not know: {values!r:.60}")

    def replay(self, segments: Sequence[Segment[DraftAt, Event]], *, with_tokens: bool) -> Replayed:
        return replay(segments, DraftPlayer if with_tokens else DraftMeasure)


def _keys(keys: Sequence[PrefixKey], ids: IdWriter) -> list[int]:
    return [ids.key(each) for each in keys]


def _read_keys(values: list[int]) -> tuple[PrefixKey, ...]:
    return tuple(PrefixKey(each) for each in values)


def _node(values: list[Any]) -> NodeAt:
    parent, token_id, candidates = values
    return NodeAt(parent, token_id, None if candidates is None else read_ids(candidates))
