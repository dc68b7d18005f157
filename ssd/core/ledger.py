"""What an engine holds of each session, as it tells the owner with every heartbeat.

A ledger is a barrier: the engine makes it in order with its other work, and the stream keeps the
order, so it counts every order sent before the heartbeat that asked for it, and comes after every
report about earlier rounds. A session that it leaves out is lost, not late.
"""

from dataclasses import dataclass

from ssd.core.ids import Epoch, PrefixKey, SessionId


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One session as an engine holds it; `key` names its committed text."""

    session_id: SessionId
    epoch: Epoch
    committed_len: int
    key: PrefixKey
    kv_len: int
    last_round: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """All sessions of one stream, in answer to its heartbeat of this number."""

    number: int
    entries: tuple[LedgerEntry, ...]
