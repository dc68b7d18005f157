"""Replays what a verifier did with a session; see `ssd.core.replay`."""

from ssd.core.ids import KvId
from ssd.core.keys import extend_key
from ssd.core.read_off import PlannedTree
from ssd.core.replay import Mismatch, expect
from ssd.core.rows import RowGroup
from ssd.core.source_rates import SourceRates
from ssd.core.tree import TokenTree
from ssd.core.verifier_flight import Checkpoint, Drawn, Event, Failed, Grown, Launched, Settled
from ssd.core.verifier_session import VerifierSession

_WIDEST_TREE = 4096  # room for any; how much a session really had is no part of the record


class VerifierPlayer:
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
        self._rates = SourceRates()
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
                expect("what came of the round", event, self._settled)
                return len(event.emitted)
        if self._running is None:
            self._session.check()
        return 0

    def meet(self, checkpoint: Checkpoint) -> None:
        """The next segment of the same opening goes on from the same text and KV."""
        if checkpoint.opening.epoch == self._session.opening.epoch:
            text = tuple(self._session.token_ids)
            expect("the text at the checkpoint", checkpoint.opening.token_ids, text)
            expect("the KV at the checkpoint", checkpoint.kv_len, self._session.kv_len)

    def _launch(self, event: Launched) -> None:
        expect("rounds that run at once", None, self._running)
        if event.is_prefill:
            rows = self._session.prefill_rows(len(event.token_ids))
            expect("the text of a prefill chunk", event.token_ids, rows.token_ids)
            self._running = (event.round_id, rows, None)
            return
        tree = TokenTree(event.tree_token_ids, event.parents)
        expect("the root", tree.token_ids[0], self._session.token_ids[-1])
        self._check_was_drafted(tree)
        planned = PlannedTree(tree, (None,) * tree.num_nodes, 0, 0.0, 0.0)
        rows = self._session.tree_rows(tree)
        expect("the rows of a tree", event.token_ids, rows.token_ids)
        self._running = (event.round_id, rows, planned)

    def _check_was_drafted(self, tree: TokenTree) -> None:
        keys = [self._session.key]
        for node, parent in enumerate(tree.parents[1:], start=1):
            expansion = self._session.expansions.get(keys[parent])
            if expansion is None or tree.token_ids[node] not in expansion.token_ids:
                raise Mismatch(f"node {node} of the tree was never drafted below node {parent}")
            keys.append(extend_key(keys[parent], tree.token_ids[node]))

    def _abandon(self, event: Failed) -> None:
        if self._running is None:
            raise Mismatch(f"round {event.round_id} failed and was never launched")
        _, rows, _ = self._running
        self._running = None
        self._session.abandon(rows)

    def _draw(self, event: Drawn) -> None:
        if self._running is None:
            raise Mismatch(f"round {event.round_id} ended and was never launched")
        round_id, rows, planned = self._running
        self._running = None
        expect("the round that ended", event.round_id, round_id)
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


class VerifierMeasure:
    """What can be checked of a record without token ids: how long things are, and in what order."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._committed_len = len(checkpoint.opening.token_ids)
        self._max_len = checkpoint.opening.max_len
        self._epoch = checkpoint.opening.epoch
        self._running: Launched | None = None

    def play(self, event: Event) -> int:
        match event:
            case Launched():
                expect("rounds that run at once", None, self._running)
                self._running = event
            case Drawn():
                if self._running is None or self._running.round_id != event.round_id:
                    raise Mismatch(f"round {event.round_id} ended and was never launched")
                self._running = None
            case Failed():
                self._running = None
            case Settled():
                return self._settle(event)
            case Grown():
                pass
        return 0

    def meet(self, checkpoint: Checkpoint) -> None:
        """The next segment of the same opening goes on from the same length."""
        if checkpoint.opening.epoch == self._epoch:
            text_len = len(checkpoint.opening.token_ids)
            expect("the length at the checkpoint", text_len, self._committed_len)

    def _settle(self, event: Settled) -> int:
        self._committed_len += len(event.emitted)
        expect("the length of the text", event.committed_len, self._committed_len)
        expect("the KV rows", event.kv_len, self._committed_len - 1)
        if not event.emitted or self._committed_len > self._max_len:
            raise Mismatch(f"{len(event.emitted)} tokens to {self._committed_len}")
        return len(event.emitted)
