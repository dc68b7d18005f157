"""Replays what a drafter did with a session; see `ssd.core.replay`.

Which nodes a step ran is taken from the record, because it was decided over all sessions. What
became of them, of the KV and of the expansions to be sent is computed anew.
"""

from collections.abc import Sequence

from ssd.core.draft_tree import DraftNode, DraftTree
from ssd.core.drafter_flight import DraftAt, Event, Expanded, Followed, NodeAt, Stepped, Told
from ssd.core.edge_rates import EdgeRates
from ssd.core.ids import PrefixKey
from ssd.core.keys import extend_key, key_of
from ssd.core.replay import Mismatch, expect

_WIDEST_TREE = 4096  # room for any; how much a session really had is no part of the record


class DraftPlayer:
    """The tree of one session."""

    def __init__(self, checkpoint: DraftAt) -> None:
        token_ids = checkpoint.opening.token_ids
        self._is_lost = False
        self._running: dict[PrefixKey, DraftNode] = {}
        self._pending: list[int] | None = None  # positions to be sent; unknown after a checkpoint
        self._rates = EdgeRates()
        self._tree = DraftTree(
            token_ids,
            key_of(token_ids),
            num_slots=len(token_ids) + checkpoint.opening.max_len + _WIDEST_TREE,
            num_covered=checkpoint.kv_len,
        )
        self._rebuild(checkpoint.nodes)
        self._tree.check()

    def play(self, event: Event) -> int:
        """Apply one event; how many tokens it committed."""
        match event:
            case Stepped():
                self._step(event)
            case Expanded():
                self._expand(event)
            case Told():
                self._tell(event)
            case Followed():
                return self._follow(event)
        return 0

    def meet(self, checkpoint: DraftAt) -> None:
        """A segment that begins with no opening goes on with the same text, KV and nodes."""
        if not checkpoint.is_new and not self._is_lost:
            text_len = len(checkpoint.opening.token_ids)
            expect("the length at the checkpoint", text_len, self._committed_len)
            expect("the KV at the checkpoint", checkpoint.kv_len, self._tree.kv_len)
            num_live = self._tree.slots.num_live
            expect("the nodes at the checkpoint", len(checkpoint.nodes), num_live)

    @property
    def _committed_len(self) -> int:
        return self._tree.cursor.position + 1

    def _step(self, event: Stepped) -> None:
        if event.num_covered > len(self._tree.uncovered):
            raise Mismatch(f"{event.num_covered} rows of {len(self._tree.uncovered)} uncovered")
        self._tree.run_uncovered(event.num_covered)
        self._running = {key: self._run(key) for key in event.keys}
        self._tree.slots.take_moves()  # the runner made them before these rows
        self._tree.check()

    def _expand(self, event: Expanded) -> None:
        for key, token_ids in zip(event.keys, event.candidates, strict=True):
            node = self._running.pop(key, None)
            if node is None:
                raise Mismatch(f"step {event.step} expanded a node that was not run")
            expect("a node that a commit dropped", False, node.is_dropped)
            self._list(node, token_ids)
            if self._pending is not None:
                self._pending.append(node.position + 1)
        for node in self._running.values():
            expect("a node that is still there and was not expanded", True, node.is_dropped)
        self._running = {}
        self._tree.check()

    def _follow(self, event: Followed) -> int:
        had = self._committed_len
        known = had - event.base_len
        if known < 0 or (known == 0 and self._tree.cursor.key != event.base_key):
            expect("whether commits are missing", event.is_lost, True)
            self._is_lost = True
            return 0
        for token_id in event.token_ids[known:]:
            self._tree.advance(token_id)
        self._tree.check()
        stands = (self._committed_len, self._tree.kv_len, self._tree.slots.num_live)
        expect("the session after a commit", _stands(event), stands)
        if self._pending is not None:
            self._pending = [each for each in self._pending if each >= self._committed_len]
        return self._committed_len - had

    def _tell(self, event: Told) -> None:
        expect("the length of the text", event.base_len, self._committed_len)
        if self._pending is not None:
            expect("the positions sent", event.positions, tuple(self._pending))
        self._pending = []

    def _run(self, key: PrefixKey) -> DraftNode:
        """Take a node off the frontier by its key, and give it its slot."""
        others = []
        while (node := self._tree.pop_best()) is not None and node.key != key:
            others.append(node)
        for each in others:
            self._tree.put_back(each)
        if node is None:
            raise Mismatch("a node was run that the tree does not offer")
        self._tree.run(node)
        return node

    def _list(self, node: DraftNode, token_ids: Sequence[int]) -> None:
        """Its candidates, in their order; how likely they were is no part of the record."""
        likely = [0.5 / (1 + rank) for rank in range(len(token_ids))]
        self._tree.expand(node, token_ids, likely, self._rates)

    def _rebuild(self, nodes: Sequence[NodeAt]) -> None:
        made: list[DraftNode] = []
        for number, each in enumerate(nodes):
            if each.parent == number:
                key = self._tree.cursor.key
            else:
                key = extend_key(made[each.parent].key, each.token_id)
            made.append(self._run(key))
            if each.candidates is not None:
                self._list(made[-1], each.candidates)


class DraftMeasure:
    """What can be checked without token ids: lengths, and their order."""

    def __init__(self, checkpoint: DraftAt) -> None:
        self._committed_len = len(checkpoint.opening.token_ids)

    def play(self, event: Event) -> int:
        match event:
            case Followed(is_lost=False):
                had, reach = self._committed_len, event.base_len + len(event.token_ids)
                if event.base_len > had:
                    raise Mismatch(f"a commit at {event.base_len} after {had} tokens")
                expect("the length", event.committed_len, max(reach, had))
                if event.kv_len >= event.committed_len:
                    raise Mismatch(f"{event.kv_len} KV rows of {event.committed_len} tokens")
                self._committed_len = event.committed_len
                return event.committed_len - had
            case Told():
                expect("the length of the text", event.base_len, self._committed_len)
            case _:
                pass
        return 0

    def meet(self, checkpoint: DraftAt) -> None:
        if not checkpoint.is_new:
            text_len = len(checkpoint.opening.token_ids)
            expect("the length at the checkpoint", text_len, self._committed_len)


def _stands(event: Followed) -> tuple[int, int, int]:
    return (event.committed_len, event.kv_len, event.num_live)
