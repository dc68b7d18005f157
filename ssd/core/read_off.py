"""Reading draft trees off the maps: best first over all sessions, while a node is worth its row."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ssd.core.edge_rates import EdgeRates
from ssd.core.expansion import Expansion, ExpansionMap
from ssd.core.ids import PrefixKey
from ssd.core.keys import extend_key
from ssd.core.tree import ROOT, TokenTree


@dataclass(frozen=True, slots=True)
class Soil:
    """Where one session's tree may grow: its cursor, its map, and its limits.

    `max_depth` is how many drafted tokens could still be accepted before the text ends.
    """

    root_token_id: int
    cursor: PrefixKey
    expansions: ExpansionMap
    rates: EdgeRates
    max_nodes: int
    max_depth: int


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
    """Reach of the likeliest node that the drafter has yet to expand; 0 where nothing below it
    could be used: the tree or the batch is full, the text ends, or no row is worth its price."""

    @property
    def steps(self) -> tuple[int, ...]:
        """The drafter's growth steps that proposed a node of this tree."""
        parents = {self.expansions[parent] for parent in self.tree.parents[1:]}
        return tuple(sorted({each.step for each in parents if each is not None}))


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
    soils: Sequence[Soil], *, max_nodes: int, is_worth: Callable[[float], bool]
) -> list[PlannedTree]:
    """One tree per session, at most `max_nodes` nodes in all, from all maps in order of reach.

    A node's reach is the product of the edge weights on its path: the probability that the walk
    passes it. `is_worth(reach)` is asked best first and ends the harvest at its first no.
    """
    saplings = [_Sapling(soil) for soil in soils]
    heap: list[_Offer] = []
    for index in range(len(saplings)):
        _offer(heap, saplings[index], index, ROOT, 1.0)
    while heap and max_nodes > 0 and is_worth(-heap[0][0]):
        minus_reach, index, parent, _, token_id = heapq.heappop(heap)
        sapling = saplings[index]
        if not sapling.is_full:
            node = sapling.add(parent, token_id, -minus_reach)
            max_nodes -= 1
            _offer(heap, sapling, index, node, -minus_reach)
    has_room = max_nodes > 0
    return [
        sapling.planned(is_open=lambda reach: has_room and is_worth(reach)) for sapling in saplings
    ]


_Offer = tuple[float, int, int, int, int]
"""(-reach, sapling, parent, rank, token id): between equal reaches no token's value decides."""


def _offer(heap: list[_Offer], sapling: _Sapling, index: int, node: int, reach: float) -> None:
    """Put the candidates below a node on the heap."""
    if sapling.depths[node] >= sapling.soil.max_depth:
        return
    expansion = sapling.expansions[node]
    if expansion is None:
        sapling.open_reach = max(sapling.open_reach, reach)
        return
    for rank, token_id in enumerate(expansion.proposals):
        weight = sapling.soil.rates.weight(rank, expansion.estimates[rank])
        heapq.heappush(heap, (-reach * weight, index, node, rank, token_id))
