"""Reading draft trees off the maps: best first over all sessions, while a node is worth its row."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ssd.core.drafter_kind import DrafterKind, kinds_in
from ssd.core.expansion import Expansion
from ssd.core.expansion_map import ExpansionMap
from ssd.core.ids import PrefixKey
from ssd.core.keys import extend_key
from ssd.core.tree import ROOT, TokenTree


@dataclass(frozen=True, slots=True)
class Soil:
    """Where one session's tree may grow: its cursor, its map, and its limits.

    `weigh` gives the edge weight of each candidate of an expansion. `max_depth` is how many drafted
    tokens could still be accepted before the text ends. `awaited` are the kinds of drafters, as
    bits, that may still add to what another kind found; 0 where there is but one.
    """

    root_token_id: int
    cursor: PrefixKey
    expansions: ExpansionMap | Mapping[PrefixKey, Expansion]
    weigh: Callable[[Expansion], Sequence[float]]
    max_nodes: int
    max_depth: int
    awaited: int = 0


@dataclass(frozen=True, slots=True)
class PlannedTree:
    """A tree to verify, with the expansion found below each node (None where there is none)."""

    tree: TokenTree
    expansions: tuple[Expansion | None, ...]
    depth: int
    """Edges on the longest path."""
    reach: float
    """Tokens that the tree should bring beside the bonus token: the sum of its nodes' reaches."""
    open_reach: float
    """Of the likeliest node that a drafter has yet to expand: its reach, less what others expect
    after it; 0 where nothing below it could be used: the tree or the batch is full, the text ends,
    or no row is worth its price."""

    @property
    def steps(self) -> tuple[int, ...]:
        """The drafter's growth steps that proposed a node of this tree."""
        edges = zip(self.tree.parents[1:], self.tree.token_ids[1:], strict=True)
        said = ((self.expansions[parent], token_id) for parent, token_id in edges)
        steps = {each.step_of(token_id) for each, token_id in said if each is not None}
        return tuple(sorted(step for step in steps if step is not None))

    def nodes_of(self, path: Sequence[int]) -> dict[DrafterKind, tuple[int, int]]:
        """How many nodes each kind of drafter named, and how many of those on the path."""
        counts: dict[DrafterKind, tuple[int, int]] = {}
        accepted = set(path)
        edges = zip(self.tree.parents[1:], self.tree.token_ids[1:], strict=True)
        for node, (parent, token_id) in enumerate(edges, start=1):
            expansion = self.expansions[parent]
            for kind in kinds_in(0 if expansion is None else expansion.origin_of(token_id)):
                proposed, taken = counts.get(kind, (0, 0))
                counts[kind] = (proposed + 1, taken + (node in accepted))
        return counts


class _Sapling:
    """A tree under construction."""

    __slots__ = (
        "depths",
        "expansions",
        "keys",
        "open_reach",
        "parents",
        "reach",
        "soil",
        "token_ids",
    )

    def __init__(self, soil: Soil) -> None:
        self.soil = soil
        self.token_ids = [soil.root_token_id]
        self.parents = [ROOT]
        self.depths = [0]
        self.keys = [soil.cursor]
        self.expansions = [soil.expansions.get(soil.cursor)]
        self.reach = 0.0
        self.open_reach = 0.0

    def add(self, parent: int, token_id: int, reach: float) -> int:
        key = extend_key(self.keys[parent], token_id)
        self.token_ids.append(token_id)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        self.keys.append(key)
        self.expansions.append(self.soil.expansions.get(key))
        self.reach += reach
        return len(self.token_ids) - 1

    def is_on_the_way(self, node: int) -> bool:
        """Whether a drafter that is awaited would come here: it was at the parent."""
        awaited, expansion = self.soil.awaited, self.expansions[self.parents[node]]
        if node == ROOT or not awaited:
            return True
        return expansion is not None and bool(expansion.source_bits & awaited)

    @property
    def is_full(self) -> bool:
        return len(self.token_ids) > self.soil.max_nodes

    def planned(self, *, is_open: Callable[[float], bool]) -> PlannedTree:
        return PlannedTree(
            TokenTree(tuple(self.token_ids), tuple(self.parents)),
            tuple(self.expansions),
            depth=max(self.depths),
            reach=self.reach,
            open_reach=self.open_reach if not self.is_full and is_open(self.open_reach) else 0.0,
        )


def read_off(
    soils: Sequence[Soil], *, max_nodes: int, is_worth: Callable[[float, int], bool]
) -> list[PlannedTree]:
    """One tree per session, at most `max_nodes` nodes in all, from all maps in order of reach.

    A node's reach is the product of the edge weights on its path: the probability that the walk
    passes it. `is_worth(reach, num_nodes)` is asked best first, after so many nodes were taken, and
    ends the harvest at its first no.
    """
    saplings = [_Sapling(soil) for soil in soils]
    heap: list[_Offer] = []
    for index in range(len(saplings)):
        _offer(heap, saplings[index], index, ROOT, 1.0)
    num_nodes = 0
    while heap and num_nodes < max_nodes and is_worth(-heap[0][0], num_nodes):
        minus_reach, index, parent, _, token_id = heapq.heappop(heap)
        sapling = saplings[index]
        if not sapling.is_full:
            node = sapling.add(parent, token_id, -minus_reach)
            num_nodes += 1
            _offer(heap, sapling, index, node, -minus_reach)
    has_room = num_nodes < max_nodes
    return [
        sapling.planned(is_open=lambda reach: has_room and is_worth(reach, num_nodes))
        for sapling in saplings
    ]


_Offer = tuple[float, int, int, int, int]
"""(-reach, sapling, parent, rank, token id): between equal reaches no token's value decides."""


def _offer(heap: list[_Offer], sapling: _Sapling, index: int, node: int, reach: float) -> None:
    """Put the candidates below a node on the heap."""
    if sapling.depths[node] >= sapling.soil.max_depth:
        return
    expansion = sapling.expansions[node]
    if expansion is None:
        if sapling.is_on_the_way(node):
            sapling.open_reach = max(sapling.open_reach, reach)
        return
    weights = sapling.soil.weigh(expansion)
    is_lacking = sapling.soil.awaited and not expansion.source_bits & sapling.soil.awaited
    if is_lacking and sapling.is_on_the_way(node):
        unlisted = max(1.0 - sum(weights), 0.0)
        sapling.open_reach = max(sapling.open_reach, reach * unlisted)
    for rank, token_id in enumerate(expansion.proposals):
        heapq.heappush(heap, (-reach * weights[rank], index, node, rank, token_id))
