"""What a flight record says of a session on its drafter."""

from dataclasses import dataclass

from ssd.core.draft_tree import DraftNode, DraftTree
from ssd.core.ids import PrefixKey
from ssd.core.messages import Open


@dataclass(frozen=True, slots=True)
class NodeAt:
    """A node that was run; `parent` is the number of an earlier one, of itself for the cursor.
    `candidates` is None before its candidates are known."""

    parent: int
    token_id: int
    candidates: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class DraftAt:
    """A session between two steps; `opening` holds its committed text as it stood."""

    opening: Open
    kv_len: int
    nodes: tuple[NodeAt, ...] = ()
    """Those that were run, parents first; none where the cursor was not."""
    is_new: bool = False
    """It was opened, perhaps anew; otherwise it goes on from what was before."""

    @classmethod
    def of(cls, opening: Open, tree: DraftTree) -> "DraftAt":
        """`opening` has the tree's text."""
        numbers: dict[int, int] = {}
        nodes: list[NodeAt] = []
        for node in _run_nodes(tree.cursor):
            numbers[id(node)] = len(nodes)
            parent = numbers[id(node.parent)] if node.parent is not None else len(nodes)
            listed = tuple(token_id for _, token_id in node.candidates)
            nodes.append(NodeAt(parent, node.token_id, listed if node.is_expanded else None))
        return cls(opening, tree.kv_len, tuple(nodes))


@dataclass(frozen=True, slots=True)
class Stepped:
    """Rows of the session went into a step: uncovered text, then nodes, named by their keys."""

    step: int
    num_covered: int
    keys: tuple[PrefixKey, ...]


@dataclass(frozen=True, slots=True)
class Expanded:
    """The step's candidates for each node that was not dropped meanwhile."""

    step: int
    keys: tuple[PrefixKey, ...]
    candidates: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Followed:
    """The verifier committed tokens; `is_lost` where some were missing. How it stood then."""

    base_len: int
    base_key: PrefixKey
    token_ids: tuple[int, ...]
    is_lost: bool
    committed_len: int
    kv_len: int
    num_live: int


@dataclass(frozen=True, slots=True)
class Told:
    """Expansions at these positions were sent for a text of this length."""

    base_len: int
    positions: tuple[int, ...]
    is_exhausted: bool


Event = Stepped | Expanded | Followed | Told


def _run_nodes(cursor: DraftNode) -> list[DraftNode]:
    """Those below the cursor, itself first, that have a slot; a parent always has one."""
    found = [cursor] if cursor.slot is not None else []
    for node in found:
        found += [child for child in node.children.values() if child.slot is not None]
    return found
