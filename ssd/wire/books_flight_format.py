"""A coordinator's flight records in a file."""

from collections.abc import Sequence
from typing import Any

from ssd.core.books_flight import (
    Booked,
    BooksAt,
    CutOff,
    Event,
    FoundComplete,
    Placed,
    SaidFinished,
)
from ssd.core.books_replay import BooksMeasure, BooksPlayer
from ssd.core.client_session import Reconciled
from ssd.core.flight_recorder import Segment
from ssd.core.ids import Epoch, PrefixKey
from ssd.core.messages import FinishReason
from ssd.core.replay import Replayed, replay
from ssd.wire.flight_values import IdWriter, read_ids


class BooksFlightFormat:
    """See `ssd.wire.flight_values.FlightFormat`."""

    def write_checkpoint(self, checkpoint: BooksAt, ids: IdWriter) -> list[Any]:
        reason = checkpoint.finish_reason
        return [
            ids.ids(checkpoint.prompt_token_ids),
            ids.ids(checkpoint.output_token_ids),
            sorted(checkpoint.stop_token_ids) if ids.with_tokens else [],
            checkpoint.max_len,
            checkpoint.epoch,
            None if reason is None else reason.value,
            checkpoint.is_new,
        ]

    def write_event(self, event: Event, ids: IdWriter) -> list[Any]:
        match event:
            case Placed():
                return ["placed", event.above, event.epoch, event.committed_len]
            case Booked():
                verdict = None if event.reconciled is None else event.reconciled.value
                what = (event.base_len, ids.key(event.base_key), ids.ids(event.token_ids))
                return ["booked", event.epoch, *what, verdict, event.committed_len]
            case SaidFinished():
                reason, verdict = event.reason.value, event.reconciled.value
                return ["finished", event.epoch, event.total_len, reason, verdict]
            case CutOff():
                return ["cut off", event.num_tokens]
            case FoundComplete():
                return ["complete", event.reason.value]

    def read_checkpoint(self, values: list[Any]) -> BooksAt:
        prompt, output, stops, max_len, epoch, reason, is_new = values
        return BooksAt(
            read_ids(prompt),
            read_ids(output),
            frozenset(stops),
            max_len,
            Epoch(epoch),
            None if reason is None else FinishReason(reason),
            is_new,
        )

    def read_event(self, values: list[Any]) -> Event:
        match values:
            case ["placed", above, epoch, committed_len]:
                return Placed(Epoch(above), Epoch(epoch), committed_len)
            case ["booked", epoch, base_len, key, token_ids, verdict, committed_len]:
                reconciled = None if verdict is None else Reconciled(verdict)
                what = (base_len, PrefixKey(key), read_ids(token_ids))
                return Booked(Epoch(epoch), *what, reconciled, committed_len)
            case ["finished", epoch, total_len, reason, verdict]:
                said = FinishReason(reason)
                return SaidFinished(Epoch(epoch), total_len, said, Reconciled(verdict))
            case ["cut off", num_tokens]:
                return CutOff(num_tokens)
            case ["complete", reason]:
                return FoundComplete(FinishReason(reason))
        raise ValueError(f"an event of a kind that this version does not know: {values!r:.60}")

    def replay(self, segments: Sequence[Segment[BooksAt, Event]], *, with_tokens: bool) -> Replayed:
        return replay(segments, BooksPlayer if with_tokens else BooksMeasure)
