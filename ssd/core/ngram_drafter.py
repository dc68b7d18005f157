"""The n-gram drafter as a process: the events of a drafter, and no forward.

What there is to say after a text is said when the text is told, in one message; nothing more comes
before the next commit. See `ssd.core.drafter` for the events.
"""

from dataclasses import dataclass

from ssd.core.drafter_outputs import ToVerifier
from ssd.core.ids import SessionId
from ssd.core.ledger import LedgerEntry
from ssd.core.messages import Close, Commit, Grow, Need, Open, Rates
from ssd.core.ngram import NgramText, as_point_mass
from ssd.core.ngram_limits import NgramLimits
from ssd.core.rounds import STEPS_PER_LIFE

SessionKey = tuple[str, SessionId]


@dataclass(slots=True)
class _Session:
    opening: Open
    text: NgramText
    is_lost: bool = False  # commits are missing; waits for the session to be opened anew


class NgramDrafter:
    """Owns the texts of all sessions; `life` tells its steps from those of other drafters."""

    def __init__(self, limits: NgramLimits, *, life: int = 0) -> None:
        self.limits = limits
        self.sessions: dict[SessionKey, _Session] = {}
        self.num_steps = 0  # texts that were looked up
        self.num_stale = 0
        self._first_step = life * STEPS_PER_LIFE

    def open(self, opening: Open, *, peer: str) -> list[ToVerifier]:
        """Start drafting for a session, or start it anew from the text given."""
        key = (peer, opening.session_id)
        standing = self.sessions.get(key)
        if standing is not None and standing.opening.epoch > opening.epoch:
            self.num_stale += 1
            return []
        session = self.sessions[key] = _Session(opening, NgramText(self.limits))
        session.text.extend(opening.token_ids)
        return [self._grow(session, peer)]

    def commit(self, message: Commit, *, peer: str) -> list[ToVerifier]:
        """Follow the committed text; a repeated commit is ignored, a gap asks for the rest."""
        session = self.sessions.get((peer, message.session_id))
        if session is None or session.opening.epoch != message.epoch or session.is_lost:
            self.num_stale += 1
            return []
        known = session.text.length - message.base_len
        if known >= len(message.token_ids):
            self.num_stale += 1
            return []
        if known < 0 or (known == 0 and session.text.key != message.base_key):
            session.is_lost = True
            from_len = session.text.length if known < 0 else 0
            return [ToVerifier(peer, Need(message.session_id, message.epoch, from_len))]
        session.text.extend(message.token_ids[known:])
        return [self._grow(session, peer)]

    def close(self, message: Close, *, peer: str) -> list[ToVerifier]:
        """Forget a session; an unknown one is ignored, and so is an older epoch's end."""
        session = self.sessions.get((peer, message.session_id))
        if session is None or session.opening.epoch > message.epoch:
            self.num_stale += 1
            return []
        del self.sessions[(peer, message.session_id)]
        return []

    def rates_updated(self, message: Rates) -> list[ToVerifier]:
        """Nothing is ranked here that the verifier does not rank again."""
        return []

    def peer_lost(self, peer: str) -> list[ToVerifier]:
        """A verifier's stream ended, and its sessions with it."""
        for key in [key for key in self.sessions if key[0] == peer]:
            del self.sessions[key]
        return []

    def ledger(self, peer: str) -> tuple[LedgerEntry, ...]:
        """What is held for one verifier; what waits to be opened anew is as good as lost."""
        return tuple(
            LedgerEntry(
                each.opening.session_id,
                each.opening.epoch,
                each.text.length,
                each.text.key,
                each.text.length - 1,  # as a drafter whose KV covers all text before the newest
                self.num_steps,
            )
            for (owner, _), each in self.sessions.items()
            if owner == peer and not each.is_lost
        )

    def check(self) -> None:
        """All invariants between two events."""
        for (_, session_id), session in self.sessions.items():
            assert session.opening.session_id == session_id
            assert session.text.length >= len(session.opening.token_ids)

    @property
    def num_reserved_slots(self) -> int:
        """It has no KV."""
        return 0

    def _grow(self, session: _Session, peer: str) -> ToVerifier:
        opening, text = session.opening, session.text
        room = opening.speculation.depth(opening.max_len - text.length - 1)
        self.num_steps += 1
        found = text.grow(max_depth=room, step=self._first_step + self.num_steps)
        if not opening.params.is_coupled:
            found = tuple(as_point_mass(each) for each in found)
        grow = Grow(
            opening.session_id,
            opening.epoch,
            base_len=text.length,
            expansions=found,
            is_exhausted=True,
        )
        return ToVerifier(peer, grow)
