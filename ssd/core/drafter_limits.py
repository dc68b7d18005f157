"""What one drafter can hold and do at once."""

from dataclasses import dataclass

from ssd.core.growth import GrowthLimits
from ssd.core.kv_pool import BLOCK_SLOTS
from ssd.core.messages import Open
from ssd.core.mode import Mode


@dataclass(frozen=True, slots=True)
class DrafterLimits:
    """What one drafter can hold and do at once; `growth` rules mode `ssd`, `chain` mode `sd`.

    A forward has at most `max_rows` rows; of those prompts get `prefill_rows` at most where others
    have work too. `kv_slots` are handed out `kv_block` at a time.
    """

    context_len: int
    kv_slots: int
    growth: GrowthLimits
    chain: GrowthLimits
    max_rows: int = 256
    prefill_rows: int = 64
    kv_block: int = BLOCK_SLOTS

    def of(self, opening: Open) -> GrowthLimits:
        """A chain is as deep as the request allows; growing ahead goes on below that."""
        if opening.mode is not Mode.SD:
            return self.growth
        return self.chain.to_depth(opening.speculation.depth(self.chain.max_depth))
