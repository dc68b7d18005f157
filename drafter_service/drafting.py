"""What every way to draft is, to the process that serves it.

A session is opened with a text, extended with what is committed, grown below it while that promises
anything, and closed; what was found goes out as messages. `model` and `self` grow by forwards of a
model (`drafter_service.machine`), `ngram` by looking up what was said (`ngram_machine`). What each
can do and needs is said in `ssd.core.drafter_kind`.
"""

from collections.abc import Sequence, Sized
from typing import Protocol

from ssd.core.drafter_outputs import Output
from ssd.core.ledger import LedgerEntry
from ssd.core.messages import Close, Commit, Open, Rates
from ssd.core.rows import Meanwhile


class DraftingCore(Protocol):
    """The state machine behind it; `peer` is the verifier's stream."""

    num_steps: int
    num_stale: int

    @property
    def sessions(self) -> Sized: ...

    def close(self, message: Close, *, peer: str) -> Sequence[Output]:
        """Forget a session."""
        ...

    def rates_updated(self, message: Rates) -> Sequence[Output]:
        """How candidates fared lately."""
        ...

    def ledger(self, peer: str) -> tuple[LedgerEntry, ...]:
        """What is held for one verifier."""
        ...


class Drafting(Protocol):
    """A way to draft: a machine of the engine thread, and the events of its sessions."""

    device_s: float

    @property
    def core(self) -> DraftingCore: ...

    def open(self, opening: Open, *, peer: str) -> list[Output]:
        """Start a session from its text."""
        ...

    def commit(self, message: Commit, *, peer: str) -> list[Output]:
        """Its text goes on."""
        ...

    def ban(self, token_ids: Sequence[int], *, peer: str) -> list[Output]:
        """Ids that mean nothing to this verifier, or something else."""
        ...

    def peer_lost(self, peer: str) -> list[Output]:
        """A verifier's stream ended."""
        ...

    def run(self, meanwhile: Meanwhile) -> bool:
        """Grow for one step; False when nothing is worth it now."""
        ...

    def settle(self) -> list[Output]:
        """What that step brought."""
        ...

    def wake_at(self) -> float | None: ...

    def release(self, outputs: list[Output]) -> None: ...
