"""The drafter's tree of one session: what it thinks the target may say next.

    committed text ──▶ cursor ──┬─ a ──┬─ b      A node is *run* once its KV has a slot, and
                                │      └─ c      *expanded* once its candidates are known. What
                                └─ d             is not run is the frontier.

A candidate becomes a node when it is the likeliest of the frontier or is committed: of six that are
listed, one or two ever do. So the frontier holds nodes, and for each expanded node the best of its
candidates that has not become one.

A commit moves the cursor. The subtree on the way stays, its KV with it; everything beside it goes.
Committed tokens whose KV is missing (the prompt, or a token nobody drafted) form one uncovered run
at the end of the text, ending before the cursor: they are the first rows of the next step.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ssd.core.edge_rates import EdgeRates
from ssd.core.ids import PrefixKey, SlotSet
from ssd.core.keys import extend_key
from ssd.core.slots import SlotLedger

_SMALL_FRONTIER = 64


Candidate = tuple[float, int]
"""(log edge weight, token id): a child that a node may get."""


@dataclass(eq=False, slots=True)
class DraftNode:
    """A token that may follow its parent. `log_reach` adds up log edge weights since the last miss;
    only differences to the cursor's mean anything."""

    token_id: int
    position: int
    key: PrefixKey
    parent: "DraftNode | None"
    log_reach: float
    slot: int | None = None
    is_expanded: bool = False
    is_dropped: bool = False
    candidates: Sequence["Candidate"] = ()  # best first
    num_reached: int = 0  # candidates that became children, or are on the frontier
    children: dict[int, "DraftNode"] = field(default_factory=dict)

    @property
    def path(self) -> tuple[int, ...]:
        """The tokens from below the cursor down to this node."""
        path, node = [], self
        while node.parent is not None:
            path.append(node.token_id)
            node = node.parent
        return tuple(reversed(path))

    def subtree(self) -> Iterator["DraftNode"]:
        """This node and all below it."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += node.children.values()


@dataclass(frozen=True, slots=True)
class CoveredRows:
    """Rows that bring committed text into the KV: a chain, each in the slot of its position."""

    token_ids: list[int]
    first_position: int

    @property
    def positions(self) -> range:
        return range(self.first_position, self.first_position + len(self.token_ids))

    @property
    def visible(self) -> list[SlotSet]:
        """What each row sees beside the text before the first."""
        return [SlotSet((2 << row) - 1) for row in range(len(self.token_ids))]


class DraftTree:
    """Owns the nodes below the cursor and the slots of everything that was run."""

    def __init__(
        self, token_ids: Sequence[int], key: PrefixKey, *, num_slots: int, num_covered: int = 0
    ) -> None:
        """The KV of the first `num_covered` tokens stands already."""
        self.slots = SlotLedger(num_slots, num_committed=num_covered)
        self.uncovered = list(token_ids[num_covered:-1])
        self.cursor = DraftNode(token_ids[-1], len(token_ids) - 1, key, None, 0.0)
        self._in_slot: dict[int, DraftNode] = {}
        # (-log reach, number, node, None), or a node's candidate that is no node yet
        self._frontier: list[tuple[float, int, DraftNode, Candidate | None]] = []
        self._num_pushed = 0
        self._sweep_above = _SMALL_FRONTIER
        self._push(self.cursor)

    @property
    def num_waiting(self) -> int:
        """Entries of the frontier, dropped nodes among them."""
        return len(self._frontier)

    @property
    def kv_len(self) -> int:
        """Committed tokens whose KV stands: a prefix of the text."""
        return self.slots.num_committed

    def pop_best(self, *, min_reach: float = 0.0) -> DraftNode | None:
        """Take the likeliest node off the frontier; None when none of `min_reach` is left."""
        log_floor = math.log(min_reach) + self.cursor.log_reach if min_reach else -math.inf
        while self._frontier:
            minus_log_reach, _, node, candidate = self._frontier[0]
            if -minus_log_reach < log_floor and not node.is_dropped:
                return None
            heapq.heappop(self._frontier)
            if node.is_dropped:
                continue
            if candidate is None:
                return node
            self._offer_next(node)
            if candidate[1] not in node.children:
                return self._child(node, candidate)
        return None

    def put_back(self, node: DraftNode) -> None:
        """Return a node that was popped and not run."""
        self._push(node)

    def reach_of(self, node: DraftNode) -> float:
        """Probability that the text passes this node, as far as the drafter knows."""
        return math.exp(node.log_reach - self.cursor.log_reach)

    def depth_of(self, node: DraftNode) -> int:
        return node.position - self.cursor.position

    def run_uncovered(self, num_tokens: int) -> "CoveredRows":
        """Give the first uncovered tokens their slots; they are committed text from here on."""
        token_ids = self.uncovered[:num_tokens]
        del self.uncovered[:num_tokens]
        first_position = self.kv_len
        if token_ids:
            self.slots.take_run(len(token_ids))
            self.slots.commit_run(len(token_ids))
        return CoveredRows(token_ids, first_position)

    def run(self, node: DraftNode) -> int:
        """Give a frontier node its slot; its parent must have been run, and all text before it."""
        node.slot = self.slots.take()
        self._in_slot[node.slot] = node
        return node.slot

    def seen_by(self, node: DraftNode) -> SlotSet:
        """The slots beside the text that a node which was run sees: its path's, its own too."""
        path, above = [], node
        while above is not self.cursor:
            path.append(_slot_of(above))
            assert above.parent is not None, "a node hangs below the cursor"
            above = above.parent
        return self.slots.seen((*path, _slot_of(above)))

    def expand(
        self,
        node: DraftNode,
        token_ids: Sequence[int],
        estimates: Sequence[float],
        rates: EdgeRates,
    ) -> None:
        """List a run node's candidates below it, unless a commit dropped it meanwhile."""
        if node.is_dropped:
            return
        node.is_expanded = True
        node.candidates = sorted(
            zip(rates.log_weights(estimates), token_ids, strict=True), key=_best_first
        )
        self._offer_next(node)

    def advance(self, token_id: int) -> bool:
        """Commit the next token: move the cursor; whether the tree had this token."""
        old = self.cursor
        kept = old.children.pop(token_id, None)
        for child in old.children.values():
            self._drop(child)
        old.children.clear()
        old.is_dropped = True  # it may be running: what it finds is of no use any more
        if old.slot is None:
            self.uncovered.append(old.token_id)
        else:
            self._commit(old.slot)
        was_drafted = True
        if kept is None:
            listed = next((each for each in old.candidates if each[1] == token_id), None)
            was_drafted = listed is not None
            kept = self._child(old, listed or (-old.log_reach, token_id))
            self._push(kept)
        kept.parent = None
        self.cursor = kept
        self._sweep()
        return was_drafted

    def best_chain_len(self) -> int:
        """How many expanded nodes follow one another from the cursor, best child first."""
        length = 0
        node: DraftNode | None = self.cursor
        while node is not None and node.candidates:
            length += 1
            node = node.children.get(node.candidates[0][1])
        return length

    def check(self) -> None:
        """Live slots belong to nodes at or below the cursor; the text is one covered prefix."""
        self.slots.check()
        nodes = {node.slot: node for node in self.cursor.subtree() if node.slot is not None}
        assert nodes == self._in_slot, "a slot's node is another one"
        live = self.slots.seen(nodes)
        assert live == self.slots.live, f"live slots {self.slots.live:#x}, nodes hold {live:#x}"
        covered = self.kv_len + len(self.uncovered)
        assert covered == self.cursor.position, f"{covered} tokens before {self.cursor.position}"
        assert not (self.uncovered and live), "a node was run before the text above it"

    def _commit(self, slot: int) -> None:
        """The run node in `slot` becomes text; what lies where it must lie changes places."""
        first = self.slots.num_committed
        displaced_to = self.slots.commit(slot)
        del self._in_slot[slot]
        if displaced_to is not None:
            displaced = self._in_slot.pop(first)
            displaced.slot = displaced_to
            self._in_slot[displaced_to] = displaced

    def _child(self, parent: DraftNode, candidate: Candidate) -> DraftNode:
        log_weight, token_id = candidate
        key = extend_key(parent.key, token_id)
        log_reach = parent.log_reach + log_weight
        child = DraftNode(token_id, parent.position + 1, key, parent, log_reach)
        parent.children[token_id] = child
        return child

    def _push(self, node: DraftNode) -> None:
        self._num_pushed += 1
        heapq.heappush(self._frontier, (-node.log_reach, self._num_pushed, node, None))

    def _offer_next(self, node: DraftNode) -> None:
        """Put the node's best candidate left on the frontier."""
        if node.num_reached < len(node.candidates):
            candidate = node.candidates[node.num_reached]
            node.num_reached += 1
            self._num_pushed += 1
            minus_reach = -node.log_reach - candidate[0]
            heapq.heappush(self._frontier, (minus_reach, self._num_pushed, node, candidate))

    def _sweep(self) -> None:
        """Leave dropped nodes out once the frontier has doubled: the unlikely never pop."""
        if len(self._frontier) > self._sweep_above:
            self._frontier = [entry for entry in self._frontier if not entry[2].is_dropped]
            heapq.heapify(self._frontier)
            self._sweep_above = 2 * len(self._frontier) + _SMALL_FRONTIER

    def _drop(self, node: DraftNode) -> None:
        held = []
        for each in node.subtree():
            each.is_dropped = True
            if each.slot is not None:
                held.append(each.slot)
                del self._in_slot[each.slot]
        self.slots.drop(held)


def _best_first(candidate: Candidate) -> float:
    return -candidate[0]


def _slot_of(node: DraftNode) -> int:
    assert node.slot is not None, "a node was run before its parent"
    return node.slot
