"""What the verifier's state machine asks of its shell: messages to send, KV to free or copy."""

from dataclasses import dataclass

from ssd.core.ids import KvId, SessionId
from ssd.core.ledger import Ledger
from ssd.core.messages import Close, Commit, Finished, Open, Rates, Refused


@dataclass(frozen=True, slots=True)
class ToCoordinator:
    """A message for the coordinator that opened the session; ledgers are the shell's own."""

    owner: str
    message: Commit | Finished | Refused | Ledger


@dataclass(frozen=True, slots=True)
class ToDrafter:
    """A message for one drafter, or for all of them (None)."""

    message: Open | Commit | Close | Rates
    drafter_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReleaseKv:
    """The runner may free the text's KV."""

    kv_id: KvId


@dataclass(frozen=True, slots=True)
class CopyKv:
    """A text, for which `held` slots are held, begins with the first slots of another."""

    source: KvId
    target: KvId
    num_slots: int
    held: int


@dataclass(frozen=True, slots=True)
class SessionOver:
    """Nothing of the session runs here any more."""

    session_id: SessionId


Output = ToCoordinator | ToDrafter | ReleaseKv | CopyKv | SessionOver
