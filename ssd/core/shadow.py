"""What drafts would have done for a text that is decoded plainly: mode `shadow`.

The drafter drafts as ever, the verifier runs bare roots, and this follows the tree that would have
been verified along the tokens that come, one by one:

    plain rounds   n    n+1   n+2   n+3
    tokens         b    c     x     ...
    shadow round   └ tree at n, read off the map: b accepted, c accepted, x is its bonus token

A shadow round is judged as a verification of its tree would have been: it would have ended with
the first of its plain rounds, so what the map held at that instant decides whether the cursor after
the bonus token would have been a hit, and what the next tree could be read off. After a miss the
next tree is read off the map as it stands, as if the verifier had waited for it.

One thing is kinder than it would be: while the plain rounds of a tree go on, so does the drafter,
nearer to the truth with every token, and what the session drafts by itself is made anew.
"""

from collections.abc import Mapping, Sequence

from ssd.core.expansion import Expansion
from ssd.core.expansion_map import ExpansionMap
from ssd.core.ids import PrefixKey
from ssd.core.keys import extend_key
from ssd.core.read_off import PlannedTree
from ssd.core.rounds import Lookup, ShadowRound
from ssd.core.tree import ROOT


class Shadow:
    """One session's shadow rounds; the caller brings the tree that each would verify."""

    def __init__(self) -> None:
        self._tree: PlannedTree | None = None
        self._children: dict[tuple[int, int], int] = {}
        self._node = ROOT
        self._num_accepted = 0
        self._num_tested = 0
        self._view: Mapping[PrefixKey, Expansion] | None = None
        self._known: Mapping[PrefixKey, Expansion] | None = None

    @property
    def wants_tree(self) -> bool:
        """Whether the next plain round begins a shadow round."""
        return self._tree is None

    def source(self, expansions: ExpansionMap) -> ExpansionMap | Mapping[PrefixKey, Expansion]:
        """What the next tree is read off: after a hit, the map as the hit found it."""
        return expansions if self._known is None else self._known

    def begin(self, planned: PlannedTree) -> None:
        """The tree that a verification launched now would have."""
        self._tree = planned
        self._children = planned.tree.children()
        self._node, self._num_accepted, self._num_tested = ROOT, 0, 0
        self._view = None

    def drawn(
        self,
        token_id: int,
        *,
        cursor: PrefixKey,
        expansions: ExpansionMap,
        own_drafts: Sequence[Expansion] = (),
        is_drafted: bool,
        is_last: bool,
    ) -> ShadowRound | None:
        """The target drew a token after the text of key `cursor`; the shadow round, if it ends.

        `expansions` is the map before it forgets what the token has passed, `own_drafts` what the
        session says by itself of the text with the token, which takes no time.
        """
        if self._tree is None:
            return None
        if self._view is None:
            self._view = expansions.snapshot()
        self._num_tested += any(parent == self._node for parent, _ in self._children)
        child = self._children.get((self._node, token_id))
        if child is not None:
            self._node = child
            self._num_accepted += 1
            if not is_last:
                return None
        self._view = {**self._view, **{each.key: each for each in own_drafts}}
        lookup = Lookup.LAST if is_last else self._lookup(token_id, cursor, is_drafted=is_drafted)
        ended = ShadowRound(
            num_tokens=self._num_accepted + (child is None),  # the bonus token, if there was one
            num_proposed=self._tree.tree.num_nodes - 1,
            num_accepted=self._num_accepted,
            num_tested=self._num_tested,
            lookup=lookup,
        )
        self._known = self._view if lookup is Lookup.HIT else None
        self._tree = None
        return ended

    def _lookup(self, token_id: int, cursor: PrefixKey, *, is_drafted: bool) -> Lookup:
        assert self._view is not None
        if extend_key(cursor, token_id) in self._view:
            return Lookup.HIT
        if not is_drafted:
            return Lookup.MISS_ABSENT
        last_seen = self._view.get(cursor)
        if last_seen is not None and token_id not in last_seen.token_ids:
            return Lookup.MISS_KEY
        return Lookup.MISS_LATE
