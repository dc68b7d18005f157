"""What one verifier can hold and do at once."""

from dataclasses import dataclass, field

from ssd.core.kv_pool import BLOCK_SLOTS
from ssd.core.ngram_limits import NgramLimits
from ssd.core.speculation_control import ControlLimits


@dataclass(frozen=True, slots=True)
class VerifierLimits:
    """What one verifier can hold and do at once.

    `max_nodes` bounds a session's tree, `max_rows` a forward, `kv_slots` the KV of all sessions,
    handed out `kv_block` at a time.
    Every session has a row in every round and prefill has half of them, so `max_sessions` follows.
    `sd_depth` is the length of the chain that mode `sd` waits for, `sd_patience_s` for how long;
    where its drafts are trees (`sd_is_tree`), a round verifies of them what mode `ssd` would.
    `ngram` lets sessions draft for themselves, with a table that they share or each its own.
    """

    vocab_size: int
    context_len: int
    kv_slots: int
    max_nodes: int = 12
    max_rows: int = 256
    sd_depth: int = 4
    sd_patience_s: float = 1.0
    sd_is_tree: bool = False
    kv_block: int = BLOCK_SLOTS
    ngram: NgramLimits | None = None
    shares_ngrams: bool = False
    control: ControlLimits = field(default_factory=ControlLimits)

    @property
    def tree_slots(self) -> int:
        """Of the largest tree, its root among them."""
        return max(self.max_nodes, self.sd_depth) + 1

    @property
    def max_sessions(self) -> int:
        return max(self.max_rows // 2, 1)
