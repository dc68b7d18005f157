"""One session on the drafter: the text it follows, its tree, and what is not sent yet."""

from dataclasses import dataclass, field

from ssd.core.draft_tree import DraftNode, DraftTree
from ssd.core.expansion import Expansion
from ssd.core.growth import GrowthLimits
from ssd.core.ids import KvId, SessionId
from ssd.core.ledger import LedgerEntry
from ssd.core.messages import Open
from ssd.core.rounds import GrowthSpan

SessionKey = tuple[str, SessionId]
"""(peer, session id): two verifiers may use the same session id."""


@dataclass(slots=True)
class DraftSession:
    """One session of one verifier."""

    peer: str
    opening: Open
    kv_id: KvId
    limits: GrowthLimits
    tree: DraftTree
    token_ids: list[int]  # the committed text
    last_step: int = 0
    is_published: bool = False
    is_gone: bool = False  # its KV is given up
    is_lost: bool = False  # commits are missing; waits for the session to be opened anew
    told_exhausted_len: int = 0
    running: tuple[DraftNode, ...] = ()  # in a forward whose candidates are not here yet
    pending: list[Expansion] = field(default_factory=list)
    pending_reach: float = 0.0  # probability, roughly, that the text passes a pending expansion
    spans: list[GrowthSpan] = field(default_factory=list)

    @property
    def key(self) -> SessionKey:
        return (self.peer, self.opening.session_id)

    @property
    def committed_len(self) -> int:
        return self.tree.cursor.position + 1

    @property
    def is_urgent(self) -> bool:
        """Whether a verifier probably waits for this session's next expansion."""
        return not self.is_exhausted and self.tree.best_chain_len() < self.limits.urgent_depth

    @property
    def is_exhausted(self) -> bool:
        """Whether the verifier was told that nothing more will come for the text as it stands."""
        return self.told_exhausted_len >= self.committed_len

    def ledger_entry(self) -> LedgerEntry:
        return LedgerEntry(
            self.opening.session_id,
            self.opening.epoch,
            self.committed_len,
            self.tree.cursor.key,
            self.tree.kv_len,
            self.last_step,
        )
