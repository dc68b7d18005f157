"""What a coordinator may count on at a verifier that others use too.

Coordinators know nothing of one another, so each verifier divides what it has free equally over
those that are attached and tells each its part with every heartbeat: all credits together never
exceed what is free, and two coordinators do not race for the same room.

Credit decides where a session is placed, not whether: where none covers it the verifier is asked
all the same, because the part of an idle coordinator is no reason to refuse.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Credit:
    """Places for sessions and KV slots; `num_others` sessions there are other coordinators'."""

    sessions: int
    slots: int
    num_others: int = 0

    @classmethod
    def share(cls, *, sessions: int, slots: int, num_others: int, num_owners: int) -> "Credit":
        """One coordinator's part of what is free."""
        return cls(sessions // max(num_owners, 1), slots // max(num_owners, 1), num_others)

    def covers(self, num_slots: int) -> bool:
        """Whether a session that needs so many slots may be opened."""
        return self.sessions > 0 and self.slots >= num_slots

    def less(self, num_slots: int) -> "Credit":
        """What is left after a session was opened."""
        return Credit(max(self.sessions - 1, 0), max(self.slots - num_slots, 0), self.num_others)
