"""The n-gram drafter's engine: it answers within its events and never has anything to run."""

from collections.abc import Sequence

from ssd.core.drafter_outputs import Output
from ssd.core.messages import Commit, Open
from ssd.core.ngram_drafter import NgramDrafter
from ssd.core.rows import Meanwhile, nothing_meanwhile


class NgramMachine:
    """Runs on the engine thread (`ssd.engine.engine_thread.Machine`); owns the core."""

    def __init__(self, core: NgramDrafter) -> None:
        self.core = core
        self.device_s = 0.0

    def ban(self, token_ids: Sequence[int], *, peer: str) -> list[Output]:
        """A text holds no ids that its verifier does not have, and so do its drafts."""
        return []

    def peer_lost(self, peer: str) -> list[Output]:
        return [*self.core.peer_lost(peer)]

    def open(self, opening: Open, *, peer: str) -> list[Output]:
        return [*self.core.open(opening, peer=peer)]

    def commit(self, message: Commit, *, peer: str) -> list[Output]:
        return [*self.core.commit(message, peer=peer)]

    def run(self, meanwhile: Meanwhile = nothing_meanwhile) -> bool:
        return False

    def settle(self) -> list[Output]:
        return []

    def wake_at(self) -> float | None:
        return None

    def release(self, outputs: Sequence[Output]) -> None:
        """It holds nothing that outputs could let go."""
