"""Which drafters work on which of a verifier's sessions.

Under the coupled rule every drafter of a kind that the request allows drafts for it; under rule
`ratio` each session has one, because there whose draw is verified must not be a race.
"""

from collections.abc import Sequence
from dataclasses import replace

from ssd.core.drafter_kind import TRAITS, DrafterKind, DrafterState
from ssd.core.errors import NoCapacity
from ssd.core.ids import SessionId
from ssd.core.ledger import Ledger
from ssd.core.messages import Close, Commit, Open, Rates, Refused
from ssd.core.mode import Mode
from ssd.core.rule import Rule
from ssd.core.source_rates import SourceRates
from ssd.core.speculation_control import StateChange
from ssd.core.verifier_outputs import ToDrafter
from ssd.core.verifier_session import VerifierSession

_ASKED_ALL_THE_SAME = 16  # of so many sessions that begin without a drafter, one does with it


class DrafterRoster:
    """Owns the attached drafters, by their kind; `sessions` are the verifier's own."""

    def __init__(self, sessions: dict[SessionId, VerifierSession]) -> None:
        self.drafters: dict[str, DrafterKind] = {}
        self._sessions = sessions
        self._num_doubted = 0

    def attached(self, drafter_id: str, kind: DrafterKind) -> list[ToDrafter]:
        """A drafter joins and gets every session it may draft for, as the text stands."""
        self.drafters[drafter_id] = kind
        wanting = [
            session
            for session in self._sessions.values()
            if drafter_id in self._allowed(session)
            and (session.opening.params.is_coupled or not session.drafters)
        ]
        for session in wanting:
            session.drafter_joined(drafter_id, kind)
        return [ToDrafter(opening_as_it_stands(each), drafter_id) for each in wanting]

    def lost(self, drafter_id: str) -> list[ToDrafter]:
        """A drafter is gone; what it sent stays useful, nothing more is waited for."""
        self.drafters.pop(drafter_id, None)
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
                session.drafter_joined(drafter_id, session.drafters[drafter_id])
                orders.append(ToDrafter(opening_as_it_stands(session), drafter_id))
            else:
                session.missing_at.add(drafter_id)
        return orders + [
            ToDrafter(Close(session_id, epoch), drafter_id)
            for session_id, epoch in held
            if session_id not in self._sessions
            or drafter_id not in self._sessions[session_id].drafters
        ]

    def opened(self, session: VerifierSession, rates: SourceRates) -> list[ToDrafter]:
        """Offer a new session, but not to models that were wrong in nearly all others."""
        limits = session.control.limits
        if session.opening.mode is Mode.SSD and limits.is_on:
            for kind in sorted(set(self.drafters.values())):
                if TRAITS[kind].has_weights and rates.of(kind).is_rare(limits.min_acceptance):
                    self._num_doubted += 1
                    if self._num_doubted % _ASKED_ALL_THE_SAME:
                        session.control.doubt(kind)
        return self.offer(session)

    def offer(self, session: VerifierSession) -> list[ToDrafter]:
        """Let all drafters draft for a session that may, as its text stands."""
        chosen = self._allowed(session)
        if not session.opening.params.is_coupled:
            chosen = self._one_of(chosen)
        return self._join(session, chosen)

    def withdraw(self, session: VerifierSession) -> list[ToDrafter]:
        """Nobody drafts for a session any more."""
        orders = self._tell(session, Close(session.opening.session_id, session.opening.epoch))
        for drafter_id in list(session.drafters):
            session.drafter_left(drafter_id)
        return orders

    def changed(self, session: VerifierSession, changes: Sequence[StateChange]) -> list[ToDrafter]:
        """Drafters that do not pay forget a session; those to be probed get it as it stands."""
        orders: list[ToDrafter] = []
        for change in changes:
            mine = [name for name, kind in self.drafters.items() if kind is change.kind]
            if change.state is DrafterState.PAUSED:
                close = Close(session.opening.session_id, session.opening.epoch)
                for drafter_id in session.drafters.keys() & mine:
                    session.drafter_left(drafter_id)
                    orders.append(ToDrafter(close, drafter_id))
            elif change.state is DrafterState.PROBED and session.may_be_drafted:
                is_coupled = session.opening.params.is_coupled
                orders += self._join(session, mine if is_coupled else self._one_of(mine))
        return orders

    def committed(self, session: VerifierSession, commit: Commit) -> list[ToDrafter]:
        """Those that draft for a session hear what was committed."""
        return self._tell(session, commit)

    def ended(self, session: VerifierSession) -> list[ToDrafter]:
        """A session is over, also for a drafter that may not have said yet that it refuses it, or
        to which the order to let go of it was lost."""
        close = Close(session.opening.session_id, session.opening.epoch)
        is_coupled = session.opening.params.is_coupled
        mine = [] if is_coupled else list(session.drafters)
        return self._to(mine or self._named(session), close)

    def rates(self, coupled: SourceRates, ratio: SourceRates) -> list[ToDrafter]:
        """How the candidates of each drafter's kind fared, under either rule."""
        orders = []
        for drafter_id, kind in self.drafters.items():
            for rule, counts in ((Rule.COUPLED, coupled.of(kind)), (Rule.RATIO, ratio.of(kind))):
                if rule is Rule.COUPLED or any(counts.tests):
                    message = Rates(tuple(counts.tests), tuple(counts.matches), rule)
                    orders.append(ToDrafter(message, drafter_id))
        return orders

    def _allowed(self, session: VerifierSession) -> list[str]:
        """The drafters that may work for a session now."""
        paused = session.control.is_paused
        return [each for each in self._named(session) if not paused(self.drafters[each])]

    def _named(self, session: VerifierSession) -> list[str]:
        """The drafters of the kinds that a session's request allows."""
        if session.opening.mode is Mode.AR:
            return []
        limits = session.opening.speculation
        return [name for name, kind in self.drafters.items() if limits.allows(kind)]

    def _join(self, session: VerifierSession, drafter_ids: Sequence[str]) -> list[ToDrafter]:
        for drafter_id in drafter_ids:
            session.drafter_joined(drafter_id, self.drafters[drafter_id])
        return self._to(drafter_ids, opening_as_it_stands(session)) if drafter_ids else []

    def _one_of(self, drafter_ids: list[str]) -> list[str]:
        """The drafter of a session under rule `ratio`, a model if there is one; sessions take
        turns."""
        models = [each for each in drafter_ids if TRAITS[self.drafters[each]].has_weights]
        ranked = sorted(models or drafter_ids)
        return [ranked[len(self._sessions) % len(ranked)]] if ranked else []

    def _tell(self, session: VerifierSession, message: Open | Commit | Close) -> list[ToDrafter]:
        """To those that draft for a session."""
        return self._to(list(session.drafters), message)

    def _to(self, drafter_ids: Sequence[str], message: Open | Commit | Close) -> list[ToDrafter]:
        """One order where it is for everybody (None)."""
        if drafter_ids and len(drafter_ids) == len(self.drafters):
            return [ToDrafter(message)]
        return [ToDrafter(message, each) for each in drafter_ids]


def opening_as_it_stands(session: VerifierSession) -> Open:
    """The opening that starts a session anew where its text stands."""
    return replace(session.opening, token_ids=tuple(session.token_ids))
