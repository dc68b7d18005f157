"""Which drafters work on which of a verifier's sessions.

Under the coupled rule every drafter drafts for every session; under rule `ratio` each session has
one, because there whose draw is verified must not be a race.
"""

from dataclasses import replace

from ssd.core.errors import NoCapacity
from ssd.core.ids import SessionId
from ssd.core.ledger import Ledger
from ssd.core.messages import Close, Commit, Open, Refused
from ssd.core.mode import Mode
from ssd.core.verifier_outputs import ToDrafter
from ssd.core.verifier_session import VerifierSession


class DrafterRoster:
    """Owns the set of attached drafters; `sessions` are the verifier's own."""

    def __init__(self, sessions: dict[SessionId, VerifierSession]) -> None:
        self.drafters: set[str] = set()
        self._sessions = sessions

    def attached(self, drafter_id: str) -> list[ToDrafter]:
        """A drafter joins and gets every session it may draft for, as the text stands."""
        self.drafters.add(drafter_id)
        wanting = [
            session
            for session in self._sessions.values()
            if session.opening.mode is not Mode.AR
            and (session.opening.params.is_coupled or not session.drafters)
        ]
        for session in wanting:
            session.drafter_joined(drafter_id)
        return [ToDrafter(opening_as_it_stands(each), drafter_id) for each in wanting]

    def lost(self, drafter_id: str) -> list[ToDrafter]:
        """A drafter is gone; what it sent stays useful, nothing more is waited for."""
        self.drafters.discard(drafter_id)
        orphans = []
        for session in self._sessions.values():
            if drafter_id in session.drafters and not session.opening.params.is_coupled:
                orphans.append(session)
            session.drafter_left(drafter_id)
        return [output for each in orphans for output in self.offer(each)]

    def refused(self, session: VerifierSession, message: Refused, drafter_id: str) -> bool:
        """A drafter has no room for a session; whether it may have some later, and nobody else has.

        Without another drafter the session goes on as plain decoding.
        """
        session.drafter_left(drafter_id)
        return message.kind == NoCapacity.__name__ and not session.is_drafted

    def compare(self, ledger: Ledger, drafter_id: str) -> list[ToDrafter]:
        """Open anew what a drafter should hold and does not, close what it should not: an order to
        it was lost.

        An opening may still be on its way when a ledger is made, so the first that leaves a session
        out proves nothing; the second does, or costs a little speed.
        """
        held = {(each.session_id, each.epoch) for each in ledger.entries}
        orders: list[ToDrafter] = []
        for session in self._sessions.values():
            opening = session.opening
            if drafter_id not in session.drafters:
                continue
            if (opening.session_id, opening.epoch) in held:
                session.missing_at.discard(drafter_id)
            elif drafter_id in session.missing_at:
                session.drafter_joined(drafter_id)
                orders.append(ToDrafter(opening_as_it_stands(session), drafter_id))
            else:
                session.missing_at.add(drafter_id)
        return orders + [
            ToDrafter(Close(session_id, epoch), drafter_id)
            for session_id, epoch in held
            if session_id not in self._sessions
        ]

    def offer(self, session: VerifierSession) -> list[ToDrafter]:
        """Let all drafters draft for a session, as its text stands."""
        if not self.drafters or session.opening.mode is Mode.AR:
            return []
        chosen = self.drafters if session.opening.params.is_coupled else {self._one()}
        for drafter_id in chosen:
            session.drafter_joined(drafter_id)
        return [self._tell(session, opening_as_it_stands(session))]

    def withdraw(self, session: VerifierSession) -> list[ToDrafter]:
        """Nobody drafts for a session any more."""
        orders = []
        if session.is_drafted:
            close = Close(session.opening.session_id, session.opening.epoch)
            orders.append(self._tell(session, close))
        for drafter_id in list(session.drafters):
            session.drafter_left(drafter_id)
        return orders

    def committed(self, session: VerifierSession, commit: Commit) -> list[ToDrafter]:
        """Those that draft for a session hear what was committed."""
        return [self._tell(session, commit)] if session.is_drafted else []

    def ended(self, session: VerifierSession) -> list[ToDrafter]:
        """A session is over, also for a drafter that may not have said yet that it refuses it."""
        if not self.drafters or session.opening.mode is Mode.AR:
            return []
        return [self._tell(session, Close(session.opening.session_id, session.opening.epoch))]

    def _one(self) -> str:
        """The drafter of a session under rule `ratio`; sessions take turns."""
        return sorted(self.drafters)[len(self._sessions) % len(self.drafters)]

    @staticmethod
    def _tell(session: VerifierSession, message: Open | Commit | Close) -> ToDrafter:
        """To all drafters (None), or to the only one of a session under rule `ratio`."""
        is_coupled = session.opening.params.is_coupled
        return ToDrafter(message, None if is_coupled else next(iter(session.drafters), None))


def opening_as_it_stands(session: VerifierSession) -> Open:
    """The opening that starts a session anew where its text stands."""
    return replace(session.opening, token_ids=tuple(session.token_ids))
