"""What an engine holds of each session, as it tells the owner with every heartbeat, and what
follows when that is held against the books.

A ledger is a barrier: the engine makes it in order with its other work, and the stream keeps the
order, so it counts every order sent before the heartbeat that asked for it, and comes after every
report about earlier rounds. A session that it leaves out is lost, not late.

Texts are compared as Raft compares logs: a key names a whole text, so equal keys at one length mean
equal texts up to there, and one comparison settles all that came before. A verifier never has less
of an epoch than the books, which got every token from it; when it has more, what is missing is
asked for, and its base key is compared when it comes.
"""

from dataclasses import dataclass
from enum import StrEnum

from ssd.core.credit import Credit
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
    is_paused: bool = False  # it stands still until its coordinator resumes it


@dataclass(frozen=True, slots=True)
class Ledger:
    """All sessions of one stream, in answer to its heartbeat of this number; a verifier also says
    what may be opened more."""

    number: int
    entries: tuple[LedgerEntry, ...]
    credit: Credit | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A session as the books have it, on the verifier where they say that it runs."""

    epoch: Epoch
    committed_len: int
    key: PrefixKey


class Verdict(StrEnum):
    """What to do about one session on one verifier."""

    CONTINUE = "continue"  # both say the same
    RESUME = "resume"  # the verifier is ahead, or waits to be resumed: go on, same epoch
    OPEN = "open"  # it is lost or wrong there: start anew from the books, newer epoch
    CLOSE = "close"  # it should not be there


def reconcile(standing: Standing | None, entry: LedgerEntry | None) -> Verdict:
    """Hold a verifier's entry (None: it has none) against the books (None: not theirs, not there).

    Raises:
        ValueError: neither knows the session.
    """
    if entry is None:
        if standing is None:
            raise ValueError("a session that neither side knows")
        return Verdict.OPEN
    if standing is None:
        return Verdict.CLOSE
    if entry.epoch != standing.epoch or entry.committed_len < standing.committed_len:
        return Verdict.OPEN
    if entry.committed_len > standing.committed_len:
        return Verdict.RESUME
    if entry.key != standing.key:
        return Verdict.OPEN
    return Verdict.RESUME if entry.is_paused else Verdict.CONTINUE
