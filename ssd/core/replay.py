"""Plays a flight record on the pure core again, up to the first difference.

What came from outside (expansions, which tree was verified, what the target drew) is taken from the
record; what the core made of it is computed anew and compared. Where nothing differs, the core as
it is now explains what happened; where something does, it is the bug, or was mended since.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ssd.core.edge_rates import EdgeRates
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
from ssd.core.ids import KvId
from ssd.core.keys import extend_key
from ssd.core.read_off import PlannedTree
from ssd.core.rows import RowGroup
from ssd.core.tree import TokenTree
from ssd.core.verifier_session import VerifierSession

_WIDEST_TREE = 4096  # room for any; how much a session really had is no part of the record

_WIDEST_TREE = 4096  # room for any; how much a session really had is no part of the record


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the core and the record part: the segment, the event in it, and what differs."""

    segment: int
    event: int
    what: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """How far a replay came; without a difference, all the way."""

    num_events: int
    num_tokens: int
    difference: Difference | None


class _Mismatch(Exception):
    """Recorded and computed values differ."""


def replay(record: Sequence[Segment]) -> Replayed:
    """Play segments one after the other, each from its own checkpoint."""
    num_events = num_tokens = 0
    for index, segment in enumerate(record):
        at = num_events
        try:
            player = _Player(segment.checkpoint)
            for event in segment.events:
                num_tokens += player.play(event)
                num_events += 1
            if index + 1 < len(record):
                player.meet(record[index + 1].checkpoint)
        # Whatever the core raises over a record is what the replay is there to find.
        except Exception as error:
            kind = "" if isinstance(error, _Mismatch) else f"{type(error).__name__}: "
            difference = Difference(index, num_events - at, f"{kind}{error}")
            return Replayed(num_events, num_tokens, difference)
    return Replayed(num_events, num_tokens, None)


class _Player:
    """One session, brought to where a checkpoint says and driven by events from there."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._session = VerifierSession(
            checkpoint.opening,
            owner="replay",
            kv_id=KvId("replay"),
            num_slots=checkpoint.opening.max_len + _WIDEST_TREE,
            num_cached=checkpoint.kv_len,
        )
        for expansion in checkpoint.expansions:
            self._session.merge(expansion)
        self._rates = EdgeRates()
        self._running: tuple[int, RowGroup, PlannedTree | None] | None = None
        self._settled: Settled | None = None
        self._session.check()

    def play(self, event: Event) -> int:
        """Apply one event; how many tokens it committed."""
        match event:
            case Grown():
                for expansion in event.expansions:
                    self._session.merge(expansion)
            case Launched():
                self._launch(event)
            case Drawn():
                self._draw(event)
            case Failed():
                self._abandon(event)
            case Settled():
                _expect("what came of the round", event, self._settled)
                return len(event.emitted)
            case Ended():
                pass
        if self._running is None:
            self._session.check()
        return 0

    def meet(self, checkpoint: Checkpoint) -> None:
        """The next segment of the same opening goes on from the same text and KV."""
        if checkpoint.opening.epoch == self._session.opening.epoch:
            text = tuple(self._session.token_ids)
            _expect("the text at the checkpoint", checkpoint.opening.token_ids, text)
            _expect("the KV at the checkpoint", checkpoint.kv_len, self._session.kv_len)

    def _launch(self, event: Launched) -> None:
        _expect("rounds that run at once", None, self._running)
        if event.is_prefill:
            rows = self._session.prefill_rows(len(event.token_ids))
            _expect("the text of a prefill chunk", event.token_ids, rows.token_ids)
            self._running = (event.round_id, rows, None)
            return
        tree = TokenTree(event.token_ids, event.parents)
        _expect("the root", event.token_ids[0], self._session.token_ids[-1])
        self._check_was_drafted(tree)
        planned = PlannedTree(tree, (None,) * tree.num_nodes, 0, 0.0, 0.0)
        self._running = (event.round_id, self._session.tree_rows(tree), planned)

    def _check_was_drafted(self, tree: TokenTree) -> None:
        keys = [self._session.key]
        for node, parent in enumerate(tree.parents[1:], start=1):
            expansion = self._session.expansions.get(keys[parent])
            if expansion is None or tree.token_ids[node] not in expansion.token_ids:
                raise _Mismatch(f"node {node} of the tree was never drafted below node {parent}")
            keys.append(extend_key(keys[parent], tree.token_ids[node]))

    def _abandon(self, event: Failed) -> None:
        if self._running is None:
            raise _Mismatch(f"round {event.round_id} failed and was never launched")
        _, rows, _ = self._running
        self._running = None
        self._session.abandon(rows)

    def _draw(self, event: Drawn) -> None:
        if self._running is None:
            raise _Mismatch(f"round {event.round_id} ended and was never launched")
        round_id, rows, planned = self._running
        self._running = None
        _expect("the round that ended", event.round_id, round_id)
        if planned is None:
            self._session.prefilled(rows)
            return
        settled = self._session.settle(planned, rows, event.target_token_ids, self._rates)
        self._settled = Settled(
            settled.token_ids,
            settled.finish_reason,
            self._session.committed_len,
            self._session.kv_len,
        )


def _expect(what: str, recorded: object, computed: object) -> None:
    if recorded != computed:
        raise _Mismatch(f"{what}: recorded {recorded}, computed {computed}")


def replay_lengths(record: Sequence[Segment]) -> Replayed:
    """What can be checked of a record without token ids: how long things are, and in what order."""
    num_events = num_tokens = 0
    for index, segment in enumerate(record):
        at = num_events
        try:
            measure = _Measure(segment.checkpoint)
            for event in segment.events:
                num_tokens += measure.play(event)
                num_events += 1
        except _Mismatch as error:
            difference = Difference(index, num_events - at, str(error))
            return Replayed(num_events, num_tokens, difference)
    return Replayed(num_events, num_tokens, None)


class _Measure:
    """A session's lengths."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._committed_len = len(checkpoint.opening.token_ids)
        self._max_len = checkpoint.opening.max_len
        self._running: Launched | None = None

    def play(self, event: Event) -> int:
        match event:
            case Launched():
                _expect("rounds that run at once", None, self._running)
                self._running = event
            case Drawn():
                if self._running is None or self._running.round_id != event.round_id:
                    raise _Mismatch(f"round {event.round_id} ended and was never launched")
                self._running = None
            case Failed():
                self._running = None
            case Settled():
                return self._settle(event)
            case _:
                pass
        return 0

    def _settle(self, event: Settled) -> int:
        self._committed_len += len(event.emitted)
        _expect("the length of the text", event.committed_len, self._committed_len)
        _expect("the KV rows", event.kv_len, self._committed_len - 1)
        if not event.emitted or self._committed_len > self._max_len:
            raise _Mismatch(f"{len(event.emitted)} tokens to {self._committed_len}")
        return len(event.emitted)
