"""Who may have KV on the verifier, and who gives it up.

A session is admitted when its text, the next 256 tokens of its output and a tree fit; from there it
grows by blocks. Where none is free, in this order:

1. ended texts go, least recently used first (`KvPool`);
2. the newest session loses its drafts, and with them all room ahead of its text;
3. it is preempted: closed here, and opened again by its coordinator, which is the
   one operation that moves a session. The oldest never is, so the work always ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ssd.core.errors import NoCapacity
from ssd.core.ids import KvId
from ssd.core.kv_pool import BLOCK_SLOTS, Beginning, KvPool
from ssd.core.messages import Open
from ssd.core.verifier_session import VerifierSession

_AHEAD = 256
_OFFER_AGAIN_ROUNDS = 64


@dataclass(slots=True)
class RoomMade:
    """What had to go so that the others can go on."""

    evicted: list[KvId] = field(default_factory=list)
    undrafted: list[VerifierSession] = field(default_factory=list)
    preempted: list[VerifierSession] = field(default_factory=list)
    offered: list[VerifierSession] = field(default_factory=list)
    """Not what went, but who may be drafted for again."""


class VerifierRoom:
    """Owns the pool; sessions' ledgers are as large as it says."""

    def __init__(self, kv_slots: int, *, tree_slots: int, block_slots: int = BLOCK_SLOTS) -> None:
        self.pool = KvPool(kv_slots, block_slots=block_slots)
        self.num_undrafted = 0
        self.num_preempted = 0
        self._tree_slots = tree_slots

    def admit(self, opening: Open, kv_id: KvId) -> Beginning:
        """Raises NoCapacity, and nothing happened, where the session has no room."""
        self._check_whole(opening)
        ahead = min(opening.max_len, len(opening.token_ids) + _AHEAD)
        wanted = ahead + self._tree_slots
        # A row that does not run has no logits, so log-probabilities of a prompt need all of it.
        is_new = len(opening.token_ids) == opening.prompt_len
        needs_rows = is_new and opening.logprobs.prompt_top is not None
        salt = None if needs_rows else opening.cache_salt
        beginning = self.pool.begin(kv_id, opening.token_ids, num_slots=wanted, salt=salt)
        if beginning is None:
            free = self.pool.num_free + self.pool.num_cached
            raise NoCapacity(f"the session needs {wanted} KV slots and {free} are free")
        return beginning

    def leave(self, session: VerifierSession) -> list[KvId]:
        """A session ends; what is settled of its text stays while nobody needs the room."""
        slots, salt = session.slots, session.opening.cache_salt
        if salt is None:
            return self.pool.close(session.kv_id)
        return self.pool.retire(
            session.kv_id,
            session.token_ids,
            slots.num_settled,
            salt=salt,
            num_used=slots.high_water,
        )

    def publish(self, session: VerifierSession) -> None:
        """The prompt is in the KV: others may begin with it."""
        salt = session.opening.cache_salt
        if salt is not None:
            self.pool.publish(
                session.kv_id, session.token_ids, session.slots.num_settled, salt=salt
            )

    def make(self, sessions: Sequence[VerifierSession], *, round_id: int) -> RoomMade:
        """Room for the next round of every session, oldest first, at a round boundary."""
        made = RoomMade()
        for session in sessions:
            if session not in made.preempted:
                self._offer_again(session, made, round_id)
                self._grow(session, sessions, made, round_id)
        return made

    def check(self, sessions: Sequence[VerifierSession]) -> None:
        """committed + live + free + cached = capacity."""
        self.pool.check()
        used = 0
        for session in sessions:
            assert session.slots.capacity == self.pool.held_by(session.kv_id)
            used += session.slots.num_committed + session.slots.num_live + session.slots.num_free
        assert used == self.pool.num_held, f"sessions hold {used} slots, {self.pool.num_held} said"
        assert used + self.pool.num_cached + self.pool.num_free == self.pool.num_slots

    def _check_whole(self, opening: Open) -> None:
        """The oldest session must always be able to end."""
        whole = opening.max_len + self._tree_slots
        if whole > self.pool.num_slots:
            raise NoCapacity(
                f"the session may come to need {whole} KV slots and there are {self.pool.num_slots}"
            )

    def _offer_again(self, session: VerifierSession, made: RoomMade, round_id: int) -> None:
        is_due = session.undrafted_at and round_id - session.undrafted_at >= _OFFER_AGAIN_ROUNDS
        if is_due and self.pool.num_free + self.pool.num_cached >= self.pool.block_slots:
            session.undrafted_at = 0
            made.offered.append(session)

    def _grow(
        self,
        session: VerifierSession,
        sessions: Sequence[VerifierSession],
        made: RoomMade,
        round_id: int,
    ) -> None:
        """A tree's worth of slots; for the newest at least the root's, which its text fills."""
        tree = self._tree_slots - 1 if session.may_be_drafted else 0
        while not self._has(session, session.committed_len + tree, made):
            newest = [each for each in sessions if each not in made.preempted][-1]
            if newest is session:
                tree = 0
            if not self._undraft(newest, made, round_id):
                self._preempt(newest, made)
                if newest is session:
                    return

    def _has(self, session: VerifierSession, num_slots: int, made: RoomMade) -> bool:
        if session.slots.capacity >= num_slots:
            return True
        evicted = self.pool.grow(session.kv_id, num_slots)
        if evicted is None:
            return False
        made.evicted += evicted
        session.slots.resize(self.pool.held_by(session.kv_id))
        return True

    def _undraft(self, session: VerifierSession, made: RoomMade, round_id: int) -> bool:
        """Take the room ahead of a text, and with it its drafts; whether it had any."""
        before = self.pool.held_by(session.kv_id)
        self.pool.shrink(session.kv_id, session.committed_len)
        session.slots.resize(self.pool.held_by(session.kv_id))
        if session.may_be_drafted:
            session.undrafted_at = round_id
            made.undrafted.append(session)
            self.num_undrafted += 1
            return True
        return self.pool.held_by(session.kv_id) < before

    def _preempt(self, session: VerifierSession, made: RoomMade) -> None:
        made.preempted.append(session)
        made.evicted += self.leave(session)
        self.num_preempted += 1
