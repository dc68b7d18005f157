"""The verifier's state machine: sessions and drafts come in, rounds to run and commits go out.

The shell feeds events (`open`, `resume`, `close`, `grow`, `drafter_attached`, `drafter_lost`, ...)
and passes on the outputs each returns. Whenever the device is free it asks `next_action(now)`: a
`Round` to run, after which it calls `round_done`, or an `Idle` until a time or the next event.

There is one path: a session without drafts verifies the bare root, which is plain decoding; a lost
drafter, a late message or mode `ar` are that case. A draft that arrives for a departed session, an
older epoch or a passed text is stale: counted and dropped.
"""

from collections.abc import Sequence

from ssd.core.cost_model import CostModel
from ssd.core.drafter_kind import DrafterKind
from ssd.core.drafter_roster import DrafterRoster, opening_as_it_stands
from ssd.core.errors import (
    EngineBroken,
    NoCapacity,
    Poisoned,
    Preempted,
    SsdError,
    UnknownSession,
)
from ssd.core.ids import Epoch, KvId, SessionId
from ssd.core.keys import key_of
from ssd.core.ledger import Ledger, LedgerEntry
from ssd.core.logprobs import LogprobsWanted
from ssd.core.messages import Close, Commit, Finished, Grow, Need, Open, Refused, Resume
from ssd.core.mode import Mode
from ssd.core.own_drafters import OwnDrafters
from ssd.core.round_planner import RoundPlanner
from ssd.core.rounds import GrowthSpan, RoundRecord
from ssd.core.verifier_gate import VerifierGate
from ssd.core.verifier_limits import VerifierLimits
from ssd.core.verifier_outputs import (
    CopyKv,
    Output,
    ReleaseKv,
    SessionOver,
    ToCoordinator,
    ToDrafter,
)
from ssd.core.verifier_room import RoomMade, VerifierRoom
from ssd.core.verifier_round import Idle, Round, record_of
from ssd.core.verifier_session import Settled, VerifierSession

_FAILURES_OF_A_POISONED = 3
_POISONED_OF_A_BROKEN_ENGINE = 3
_RATES_EVERY_S = 1.0


class Verifier:
    """Owns all sessions of one target model. Times are seconds of one monotonic clock."""

    def __init__(self, limits: VerifierLimits, cost: CostModel) -> None:
        self.limits = limits
        self.sessions: dict[SessionId, VerifierSession] = {}
        self.planner = RoundPlanner(limits, cost)
        self.roster = DrafterRoster(self.sessions)
        self.num_stale = 0
        self._num_poisoned_in_a_row = 0
        self.room = VerifierRoom(
            limits.kv_slots, tree_slots=limits.tree_slots, block_slots=limits.kv_block
        )
        self._gate = VerifierGate(limits)
        self._own_drafters = OwnDrafters(limits)
        self._num_opened = 0
        self._growth: dict[SessionId, list[GrowthSpan]] = {}
        self._rates_sent_s = 0.0

    # ── events ────────────────────────────────────────────────────────────────────────────────

    def open(self, opening: Open, *, owner: str) -> list[Output]:
        """Start or restart a session; an epoch that is not newer is refused, a repeat ignored."""
        standing = self.sessions.get(opening.session_id)
        if standing is not None and (standing.opening, standing.owner) == (opening, owner):
            self.num_stale += 1
            return []
        outputs: list[Output] = []
        try:
            self._gate.check(opening, standing=standing.opening if standing else None)
            outputs += self._drop(opening.session_id)
            session, begun = self._admit(opening, owner)
        except SsdError as error:
            kind = type(error).__name__
            refusal = Refused(opening.session_id, opening.epoch, kind, str(error))
            return [*outputs, ToCoordinator(owner, refusal)]
        outputs += begun
        return [*outputs, *self.roster.opened(session, self.planner.rates_of(session))]

    def close(self, message: Close) -> list[Output]:
        """Forget a session; closing an unknown one, or an older epoch, does nothing."""
        session = self.sessions.get(message.session_id)
        if session is None or session.opening.epoch > message.epoch:
            self.num_stale += 1
            return []
        return self._drop(message.session_id)

    def resume(self, message: Resume, *, owner: str) -> list[Output]:
        """A coordinator is back and goes on with a session; what it missed is said again."""
        session = self.sessions.get(message.session_id)
        if (
            session is None
            or session.opening.epoch != message.epoch
            or not session.opening.prompt_len <= message.have_len <= session.committed_len
        ):
            words = f"session {message.session_id} does not stand here at epoch {message.epoch}"
            refusal = Refused(message.session_id, message.epoch, UnknownSession.__name__, words)
            return [ToCoordinator(owner, refusal)]
        missed = tuple(session.token_ids[message.have_len :])
        if missed and session.opening.logprobs != LogprobsWanted():
            # What was said once is not kept: from the books it is all computed again.
            words = f"log-probabilities of session {message.session_id} were lost on their way"
            refusal = Refused(message.session_id, message.epoch, UnknownSession.__name__, words)
            return [ToCoordinator(owner, refusal)]
        session.is_paused = False
        if not missed:
            return []
        base_key = key_of(session.token_ids[: message.have_len])
        commit = Commit(message.session_id, message.epoch, message.have_len, base_key, missed)
        return [ToCoordinator(owner, commit)]

    def owner_away(self, owner: str) -> list[Output]:
        """A coordinator's stream was cut: its sessions stand still, with their KV, until it
        resumes them or `owner_lost` says that it did not come back."""
        for session in self.sessions.values():
            session.is_paused |= session.owner == owner
        return []

    def owner_lost(self, owner: str) -> list[Output]:
        """A coordinator is gone: its sessions end here; it opens them again when it is back."""
        orphans = [name for name, each in self.sessions.items() if each.owner == owner]
        return [output for name in orphans for output in self._drop(name)]

    def drafter_attached(
        self, drafter_id: str, kind: DrafterKind = DrafterKind.MODEL
    ) -> list[Output]:
        """A drafter joins."""
        return [*self.roster.attached(drafter_id, kind)]

    def drafter_lost(self, drafter_id: str) -> list[Output]:
        """A drafter is gone."""
        return [*self.roster.lost(drafter_id)]

    def drafter_ledger(self, ledger: Ledger, *, drafter_id: str) -> list[Output]:
        """A drafter says what it holds."""
        return [*self.roster.compare(ledger, drafter_id)]

    def ledger(self, owner: str) -> tuple[LedgerEntry, ...]:
        """What is held for one coordinator."""
        return tuple(each.ledger_entry() for each in self.sessions.values() if each.owner == owner)

    def grow(
        self, message: Grow, *, now: float, kind: DrafterKind = DrafterKind.MODEL
    ) -> list[Output]:
        """Take the expansions of a drafter of this kind into the session's map."""
        self.planner.message_arrived(now)
        session = self._current(message.session_id, message.epoch)
        if session is None:
            return []
        if session.opening.mode is Mode.AR:
            self.num_stale += 1
            return []
        for expansion in message.expansions:
            is_sound = self._gate.admits(expansion, session.opening)
            if not is_sound or not session.merge(expansion, kind):
                self.num_stale += 1
        session.grew(message, kind)
        self._growth[message.session_id].extend(message.spans)
        self.planner.grew(message.spans)
        return []

    def drafter_refused(self, message: Refused, *, drafter_id: str) -> list[Output]:
        """A drafter has no room for a session."""
        session = self._current(message.session_id, message.epoch)
        if session is not None and self.roster.refused(session, message, drafter_id):
            session.undrafted_at = max(self.num_rounds, 1)  # and offered again in a while
        return []

    def need(self, message: Need, *, drafter_id: str) -> list[Output]:
        """A drafter lost its place; it gets the committed text again."""
        session = self._current(message.session_id, message.epoch)
        if session is None:
            return []
        return [ToDrafter(opening_as_it_stands(session), drafter_id)]

    # ── work ──────────────────────────────────────────────────────────────────────────────────

    def next_action(self, now: float) -> Round | Idle:
        """The next forward, unless there is nothing to do or waiting for drafts pays."""
        if not self.has_work:
            self.planner.nothing_to_do()
            return Idle(None)
        self.planner.could_start(now)
        running = self._next_runners()
        planned = self.planner.plan(running)
        if len(planned) == len(running):  # a queued prefill chunk never waits for drafts
            until = self.planner.wait_until(planned, now)
            if until is not None:
                return Idle(until)
        return self.planner.launch(planned, running, now)

    def round_failed(self, failed: Round) -> list[Output]:
        """A forward raised an error: find the session that makes it fail, and let go of that one.

        All sessions of the round run alone, in turns, until a forward of theirs succeeds, so each
        further failure has one culprit; after three of them it is refused, and the others go on.

        Raises:
            EngineBroken: every session fails alone, so it is none of theirs doing.
        """
        is_alone = len(failed.shares) == 1
        outputs: list[Output] = []
        for share in failed.shares:
            session = share.session
            if self.sessions.get(session.opening.session_id) is not session:
                continue  # closed or opened anew while the forward ran
            session.abandon(share.rows)
            session.is_suspect = True
            session.num_failures += is_alone
            if session.num_failures >= _FAILURES_OF_A_POISONED:
                outputs += self._give_up(session)
        return outputs

    def round_done(
        self,
        done: Round,
        target_token_ids: Sequence[Sequence[int]],
        *,
        launch_s: float,
        end_s: float,
    ) -> list[Output]:
        """Settle a round: a sequence of target tokens per share, which prefill chunks ignore."""
        outputs: list[Output] = []
        num_tokens = 0
        row_price, wait_price = self.planner.prices(done)
        for share, target in zip(done.shares, target_token_ids, strict=True):
            if self.sessions.get(share.session.opening.session_id) is not share.session:
                continue  # closed or opened anew while the forward ran
            share.session.last_round = done.round_id
            share.session.is_suspect, share.session.num_failures = False, 0
            self._num_poisoned_in_a_row = 0
            if share.planned is None:
                share.session.prefilled(share.rows)
                if not share.session.is_prefilling:
                    self.room.publish(share.session)
                continue
            rates = self.planner.rates_of(share.session)
            settled = share.session.settle(share.planned, share.rows, target, rates)
            if share.ends_prefill:
                self.room.publish(share.session)
            else:  # how long a prompt took says nothing of what decoding earns
                num_tokens += len(settled.token_ids)
            record = record_of(done, share, settled, launch_s, end_s)
            changes = share.session.judge(settled, row_price=row_price, wait_price=wait_price)
            outputs += self._announce(share.session, settled, record)
            if settled.finish_reason is None:
                outputs += self.roster.changed(share.session, changes)
        outputs += self._make_room(done.round_id)
        self.planner.round_done(done, num_tokens, launch_s=launch_s, end_s=end_s)
        return outputs + self._share_rates(end_s)

    def check(self) -> None:
        """All invariants of a round boundary."""
        for session in self.sessions.values():
            session.check()
        self.room.check(list(self.sessions.values()))
        assert self.num_reserved_slots <= self.limits.kv_slots
        assert self._growth.keys() == self.sessions.keys()

    @property
    def drafters(self) -> set[str]:
        """Those attached."""
        return set(self.roster.drafters)

    @property
    def num_rounds(self) -> int:
        return self.planner.num_rounds

    @property
    def cost(self) -> CostModel:
        return self.planner.cost

    @property
    def has_work(self) -> bool:
        """Whether rounds must come."""
        return any(not session.is_paused for session in self.sessions.values())

    @property
    def num_reserved_slots(self) -> int:
        """KV slots that the open sessions hold."""
        return self.room.pool.num_held

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    @property
    def _running(self) -> list[VerifierSession]:
        return [session for session in self.sessions.values() if not session.is_paused]

    def _admit(self, opening: Open, owner: str) -> tuple[VerifierSession, list[Output]]:
        """Raises NoCapacity."""
        if len(self.sessions) >= self.limits.max_sessions:
            raise NoCapacity(f"all {self.limits.max_sessions} places for a session are taken")
        kv_id = KvId(f"{opening.session_id}#{self._num_opened}")
        beginning = self.room.admit(opening, kv_id)
        self._num_opened += 1
        self._gate.passed(opening)
        outputs: list[Output] = [ReleaseKv(each) for each in beginning.evicted]
        if beginning.prefix is not None:
            prefix, held = beginning.prefix, self.room.pool.held_by(kv_id)
            outputs.append(CopyKv(prefix.kv_id, kv_id, prefix.length, held))
        session = VerifierSession(
            opening,
            owner=owner,
            kv_id=kv_id,
            num_slots=self.room.pool.held_by(kv_id),
            num_cached=beginning.num_cached,
            own=self._own_drafters.for_session(opening),
        )
        self.sessions[opening.session_id] = session
        self._growth[opening.session_id] = []
        return session, outputs

    def _make_room(self, round_id: int) -> list[Output]:
        """See to it that every session has slots for its next round."""
        made: RoomMade = self.room.make(list(self.sessions.values()), round_id=round_id)
        outputs: list[Output] = [ReleaseKv(each) for each in made.evicted]
        for session in made.undrafted:
            outputs += self.roster.withdraw(session)
        for session in made.offered:
            outputs += self.roster.offer(session)
        for session in made.preempted:
            session_id, epoch = session.opening.session_id, session.opening.epoch
            outputs += self._forget(session)
            words = "older sessions need its KV slots"
            refusal = Refused(session_id, epoch, Preempted.__name__, words)
            outputs.append(ToCoordinator(session.owner, refusal))
        return outputs

    def _drop(self, session_id: SessionId) -> list[Output]:
        session = self.sessions.get(session_id)
        if session is None:
            return []
        outputs: list[Output] = [ReleaseKv(each) for each in self.room.leave(session)]
        return outputs + self._forget(session)

    def _forget(self, session: VerifierSession) -> list[Output]:
        """A session that holds no KV any more is gone."""
        session_id = session.opening.session_id
        del self.sessions[session_id], self._growth[session_id]
        return [SessionOver(session_id), *self.roster.ended(session)]

    def _current(self, session_id: SessionId, epoch: Epoch) -> VerifierSession | None:
        session = self.sessions.get(session_id)
        if session is None or session.opening.epoch != epoch:
            self.num_stale += 1
            return None
        return session

    def _next_runners(self) -> list[VerifierSession]:
        """The sessions of the next round: all, or after a failed forward one of its alone."""
        running = self._running
        suspects = [session for session in running if session.is_suspect]
        return sorted(suspects, key=lambda each: each.num_failures)[:1] or running

    def _give_up(self, session: VerifierSession) -> list[Output]:
        """Refuse a session that makes forwards fail, unless they fail for all others too."""
        self._num_poisoned_in_a_row += 1
        others = [each for each in self._running if each is not session]
        if others and all(each.num_failures for each in others):
            raise EngineBroken(f"forwards fail for each of {len(others) + 1} sessions alone")
        if self._num_poisoned_in_a_row >= _POISONED_OF_A_BROKEN_ENGINE:
            raise EngineBroken(
                f"forwards failed for {self._num_poisoned_in_a_row} sessions alone, one by one"
            )
        opening = session.opening
        words = f"the engine failed {session.num_failures} times on this request alone"
        refusal = Refused(opening.session_id, opening.epoch, Poisoned.__name__, words)
        return [ToCoordinator(session.owner, refusal), *self._drop(opening.session_id)]

    def _announce(
        self, session: VerifierSession, settled: Settled, record: RoundRecord
    ) -> list[Output]:
        """Tell the coordinator and the drafters what was committed, and whether the text ended."""
        opening = session.opening
        growth = tuple(self._growth[opening.session_id])
        self._growth[opening.session_id].clear()
        commit = Commit(
            opening.session_id,
            opening.epoch,
            base_len=record.base_len,
            base_key=settled.base_key,
            token_ids=settled.token_ids,
            record=record,
            growth=growth,
        )
        outputs: list[Output] = []
        if settled.finish_reason is None:
            outputs += self.roster.committed(session, commit)
        outputs.append(ToCoordinator(session.owner, commit))
        if settled.finish_reason is not None:
            finished = Finished(
                opening.session_id, opening.epoch, session.committed_len, settled.finish_reason
            )
            outputs.append(ToCoordinator(session.owner, finished))
            outputs += self._drop(opening.session_id)
        return outputs

    def _share_rates(self, now: float) -> list[Output]:
        if not self.drafters or now - self._rates_sent_s < _RATES_EVERY_S:
            return []
        self._rates_sent_s = now
        return [*self.roster.rates(*self.planner.rates)]
