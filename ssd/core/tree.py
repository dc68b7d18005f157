"""Token trees, and the walk that decides what of them is true.

node   0        1     2     3        Node 0 is the root: the newest committed token, whose
tree   root ──┬─ a ──┬─ b            logits say what follows the committed text.
              │      └─ c  (3)
              └─ d   (4)             Parents precede their children.
"""

from collections.abc import Sequence
from dataclasses import dataclass

ROOT = 0


@dataclass(frozen=True, slots=True)
class TokenTree:
    """Drafted candidates. Node 0 is the newest committed token; node i hangs below parents[i]."""

    token_ids: tuple[int, ...]
    parents: tuple[int, ...]  # the root is its own parent

    def __post_init__(self) -> None:
        if len(self.token_ids) != len(self.parents) or not self.token_ids:
            raise ValueError(f"{len(self.token_ids)} tokens, {len(self.parents)} parents")
        if any(parent >= node for node, parent in enumerate(self.parents[1:], start=1)):
            raise ValueError(f"a parent must precede its children: {self.parents}")

    @property
    def num_nodes(self) -> int:
        return len(self.token_ids)

    def paths(self) -> list[tuple[int, ...]]:
        """The tokens from below the root down to each node; the root's path is empty."""
        paths: list[tuple[int, ...]] = [()]
        for parent, token_id in zip(self.parents[1:], self.token_ids[1:], strict=True):
            paths.append((*paths[parent], token_id))
        return paths

    def best_chain_first(self) -> list[int]:
        """All nodes, those of the best chain first: of siblings the first was the likeliest."""
        first_child: dict[int, int] = {}
        for node, parent in enumerate(self.parents[1:], start=1):
            first_child.setdefault(parent, node)
        chain = [ROOT]
        while (child := first_child.get(chain[-1])) is not None:
            chain.append(child)
        in_chain = set(chain)
        return [*chain, *(node for node in range(self.num_nodes) if node not in in_chain)]

    def children(self) -> dict[tuple[int, int], int]:
        """The node that carries a token below a parent: (parent, token id) -> node."""
        edges = zip(self.parents[1:], self.token_ids[1:], strict=True)
        return {edge: node for node, edge in enumerate(edges, start=1)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a verification decided: the accepted nodes from the root down, and the token after."""

    path: tuple[int, ...]
    bonus_token_id: int

    @property
    def last_node(self) -> int:
        """The node that ended the walk; its logits gave the bonus token."""
        return self.path[-1] if self.path else ROOT


def walk(tree: TokenTree, target_token_ids: Sequence[int]) -> Outcome:
    """Follow the target's own tokens down the tree until they leave it.

    `target_token_ids[node]` is the target's next token after `node`. Every token on the way is the
    target's draw, proposed or not, so the tree decides how far one verification gets and never what
    is said.
    """
    children = tree.children()
    path: list[int] = []
    node = ROOT
    while (child := children.get((node, target_token_ids[node]))) is not None:
        path.append(child)
        node = child
    return Outcome(tuple(path), bonus_token_id=target_token_ids[node])


def emitted_token_ids(tree: TokenTree, outcome: Outcome) -> tuple[int, ...]:
    """The accepted tokens and the bonus token, in text order."""
    return (*(tree.token_ids[node] for node in outcome.path), outcome.bonus_token_id)
