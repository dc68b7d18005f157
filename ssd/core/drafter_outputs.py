"""What the drafter's state machine asks of its shell: messages to send, KV to free or copy."""

from dataclasses import dataclass

from ssd.core.ids import KvId
from ssd.core.ledger import Ledger
from ssd.core.messages import Grow, Need, Open, Refused


@dataclass(frozen=True, slots=True)
class ToVerifier:
    """A message for the verifier at the other end of `peer`; ledgers are the shell's own."""

    peer: str
    message: Grow | Need | Refused | Ledger


@dataclass(frozen=True, slots=True)
class ReleaseDraftKv:
    """The runner may free this text's KV."""

    kv_id: KvId


@dataclass(frozen=True, slots=True)
class DraftOver:
    """Nothing is drafted for this text any more."""

    kv_id: KvId


@dataclass(frozen=True, slots=True)
class CopyDraftKv:
    """A text, for which `held` slots are held, begins with the first slots of another."""

    source: KvId
    target: KvId
    num_slots: int
    held: int


Output = ToVerifier | ReleaseDraftKv | CopyDraftKv | DraftOver


def refusal(opening: Open, peer: str, kind: str, message: str) -> ToVerifier:
    return ToVerifier(peer, Refused(opening.session_id, opening.epoch, kind, message))
