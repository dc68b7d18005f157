"""The drafter's state machine: openings and commits come in, growth steps and expansions go out.

The shell feeds events (`open`, `commit`, `close`, `rates`, `peer_lost`), then asks `next_step()`
until it returns None, which means that nothing is worth growing and the shell may sleep until the
next event. A drafter owns nothing that could not be rebuilt from the committed text: losing it, or
any of its sessions, costs speed and nothing else.

One step is one forward over all sessions (`ssd.core.step_planner`).
"""

import math
from collections.abc import Sequence

from ssd.core.cost_model import CostModel, ForwardSize
from ssd.core.draft_session import DraftSession, SessionKey
from ssd.core.draft_step import Candidates, Step, expansion_of, span_of
from ssd.core.draft_tree import DraftNode, DraftTree
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.drafter_outputs import (
    CopyDraftKv,
    DraftOver,
    Output,
    ReleaseDraftKv,
    ToVerifier,
    refusal,
)
from ssd.core.edge_rates import EdgeRates, are_counts
from ssd.core.fan_out import order_estimates
from ssd.core.ids import KvId
from ssd.core.keys import key_of
from ssd.core.kv_pool import KvPool
from ssd.core.ledger import LedgerEntry
from ssd.core.messages import Close, Commit, Grow, Need, Open, Rates
from ssd.core.rounds import STEPS_PER_LIFE
from ssd.core.rule import Rule
from ssd.core.step_planner import StepPlanner

_FAILURES_OF_A_POISONED = 3
_MESSAGE_S = 0.0004  # of the drafter's core, roughly, for a message and its way through Python
_AHEAD = 256  # slots for so much output are held from the start


class Drafter:
    """Owns all sessions of one draft model."""

    def __init__(
        self, limits: DrafterLimits, *, life: int = 0, cost: CostModel | None = None
    ) -> None:
        """`life` tells this life's growth steps from those of other drafters (`life_of`).

        Without a cost model a step is as wide as the limits allow.
        """
        self.limits = limits
        self.cost = cost
        self._first_step = life * STEPS_PER_LIFE
        self.rates, self.ratio_rates = EdgeRates(), EdgeRates()
        self.sessions: dict[SessionKey, DraftSession] = {}
        self.num_steps = 0
        self.num_stale = 0
        self._failures: dict[SessionKey, int] = {}  # of sessions in forwards that failed
        self.num_opened = 0
        self.num_dropped = 0  # sessions that gave up their KV for older ones
        self._planner = StepPlanner(limits, cost)
        self.pool = KvPool(limits.kv_slots, block_slots=limits.kv_block)

    # ── events ────────────────────────────────────────────────────────────────────────────────

    def open(self, opening: Open, *, peer: str) -> list[Output]:
        """Start drafting for a session, or start it anew from the text given."""
        standing = self.sessions.get((peer, opening.session_id))
        if standing is not None and standing.opening.epoch > opening.epoch:
            self.num_stale += 1
            return []
        outputs = self._drop((peer, opening.session_id))
        if not opening.token_ids:
            return [*outputs, refusal(opening, peer, "InvalidRequest", "a text needs a token")]
        limits = self.limits.of(opening)
        text_len = min(len(opening.token_ids), self.limits.context_len)
        wanted = min(text_len + _AHEAD, opening.max_len) + limits.max_nodes
        self.num_opened += 1
        kv_id = KvId(f"{peer}/{opening.session_id}#{self.num_opened}")
        begun = self.pool.begin(
            kv_id, opening.token_ids[:text_len], num_slots=wanted, salt=opening.cache_salt
        )
        if begun is None:
            message = f"the drafter has no {wanted} KV slots free"
            return [*outputs, refusal(opening, peer, "NoCapacity", message)]
        outputs += [ReleaseDraftKv(each) for each in begun.evicted]
        if begun.prefix is not None:
            prefix, held = begun.prefix, self.pool.held_by(kv_id)
            outputs.append(CopyDraftKv(prefix.kv_id, kv_id, prefix.length, held))
        tree = DraftTree(
            opening.token_ids,
            key_of(opening.token_ids),
            num_slots=self.pool.held_by(kv_id),
            num_covered=begun.num_cached,
        )
        session = DraftSession(peer, opening, kv_id, limits, tree, list(opening.token_ids))
        self.sessions[(peer, opening.session_id)] = session
        return outputs + self._flush(session)

    def commit(self, message: Commit, *, peer: str) -> list[Output]:
        """Follow the committed text; a repeated commit is ignored, a gap asks for the rest."""
        session = self.sessions.get((peer, message.session_id))
        if session is None or session.opening.epoch != message.epoch or session.is_lost:
            self.num_stale += 1
            return []
        known = session.committed_len - message.base_len
        if known >= len(message.token_ids):
            self.num_stale += 1
            return []
        if known < 0 or (known == 0 and session.tree.cursor.key != message.base_key):
            session.is_lost = True
            from_len = session.committed_len if known < 0 else 0
            need = Need(message.session_id, message.epoch, from_len)
            return [ToVerifier(peer, need)]
        for token_id in message.token_ids[known:]:
            session.tree.advance(token_id)
        session.token_ids += message.token_ids[known:]
        length = session.committed_len
        session.pending = [each for each in session.pending if each.position >= length]
        if session.pending:
            session.pending_reach = math.inf  # the verifier is about to plan its next tree
        outputs = self._make_room(session)
        return outputs if session.is_gone else outputs + self._flush(session)

    def close(self, message: Close, *, peer: str) -> list[Output]:
        """Forget a session; an unknown one is ignored, and so is an older epoch's end."""
        self._failures.pop((peer, message.session_id), None)
        session = self.sessions.get((peer, message.session_id))
        if session is None or session.opening.epoch > message.epoch:
            self.num_stale += 1
            return []
        return self._drop((peer, message.session_id))

    def rates_updated(self, message: Rates) -> list[Output]:
        """Rank further candidates by what the verifier counted."""
        if not (are_counts(message.tests) and are_counts(message.matches)):
            self.num_stale += 1
            return []
        rates = EdgeRates(list(message.tests), list(message.matches))
        if message.rule is Rule.RATIO:
            self.ratio_rates = rates
        else:
            self.rates = rates
        return []

    def peer_lost(self, peer: str) -> list[Output]:
        """A verifier's stream ended, and its sessions with it."""
        self._failures = {key: count for key, count in self._failures.items() if key[0] != peer}
        gone = [key for key in self.sessions if key[0] == peer]
        return [output for key in gone for output in self._drop(key)]

    def ledger(self, peer: str) -> tuple[LedgerEntry, ...]:
        """What is held for one verifier; what waits to be opened anew is as good as lost."""
        return tuple(
            each.ledger_entry()
            for each in self.sessions.values()
            if each.peer == peer and not each.is_lost
        )

    # ── work ──────────────────────────────────────────────────────────────────────────────────

    def next_step(self) -> Step | None:
        """The next forward, or None when nothing is worth growing before the next event."""
        working = [each for each in self.sessions.values() if not each.is_lost]
        working.sort(key=lambda each: each.last_step)  # a long prefill starves nobody
        for suspect in [each for each in working if each.key in self._failures]:
            if (step := self._step_of([suspect])) is not None:
                return step
        return self._step_of([each for each in working if each.key not in self._failures])

    def _step_of(self, working: Sequence[DraftSession]) -> Step | None:
        shares = self._planner.shares(working)
        if not shares:
            return None
        self.num_steps += 1
        for share in shares:
            share.session.last_step = self.num_steps
            share.session.running = share.nodes
        return Step(self._first_step + self.num_steps, tuple(shares))

    def step_done(
        self, step: Step, candidates: Sequence[Candidates], *, start_s: float, end_s: float
    ) -> list[Output]:
        """Hang the candidates into the trees and send what a verifier can use now."""
        if self.cost is not None:
            self.cost.observe(ForwardSize.of(step.groups), end_s - start_s)
        outputs: list[Output] = []
        answers = iter(candidates)
        for share in step.shares:
            session = share.session
            found = [(node, next(answers)) for node in share.nodes]
            if self.sessions.get((session.peer, session.opening.session_id)) is not session:
                continue  # closed or opened anew while the forward ran
            session.running = ()
            self._failures.pop(session.key, None)
            for node, answer in found:
                self._expand(session, step.number, node, answer)
            session.spans.append(span_of(step, share, start_s, end_s))
            self._publish(session)
            outputs += self._flush(session)
        return outputs

    def step_failed(self, failed: Step) -> list[Output]:
        """A forward raised an error: start its sessions anew, each alone until a step of it
        succeeds, and refuse the one that fails alone three times."""
        is_alone = len(failed.shares) == 1
        outputs: list[Output] = []
        for share in failed.shares:
            session, opening = share.session, share.session.opening
            key = session.key
            if self.sessions.get(key) is not session:
                continue  # closed or opened anew while the forward ran
            outputs += self._drop(key, may_keep=False)
            self._failures[key] = self._failures.get(key, 0) + is_alone
            if self._failures[key] >= _FAILURES_OF_A_POISONED:
                del self._failures[key]
                words = f"the engine failed on session {opening.session_id} again and again"
                outputs.append(refusal(opening, session.peer, "Poisoned", words))
            else:
                need = Need(opening.session_id, opening.epoch, 0)
                outputs.append(ToVerifier(session.peer, need))
        return outputs

    def check(self) -> None:
        """All invariants of a step boundary."""
        for session in self.sessions.values():
            session.tree.check()
            assert session.tree.slots.capacity == self.pool.held_by(session.kv_id)
        self.pool.check()
        assert self.num_reserved_slots <= self.limits.kv_slots

    @property
    def num_reserved_slots(self) -> int:
        """KV slots that the open sessions hold."""
        return self.pool.num_held

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _expand(
        self,
        session: DraftSession,
        step: int,
        node: DraftNode,
        candidates: Candidates,
    ) -> None:
        expansion = expansion_of(session, step, node, candidates)
        rates = self.rates if session.opening.params.is_coupled else self.ratio_rates
        estimates, counted = order_estimates(session.limits.order, expansion.estimates, rates)
        session.tree.expand(node, expansion.token_ids, estimates, counted)
        if not node.is_dropped:
            session.pending.append(expansion)
            session.pending_reach += session.tree.reach_of(node)

    def _flush(self, session: DraftSession) -> list[Output]:
        """Send what was collected if a verifier can use it now, or if nothing more will come."""
        is_exhausted = not self._planner.has_work(session)
        is_news = is_exhausted and not session.is_exhausted
        if not (is_news or session.pending_reach >= self._push_reach(session)):
            return []
        if is_exhausted:
            session.told_exhausted_len = session.committed_len
        grow = Grow(
            session.opening.session_id,
            session.opening.epoch,
            base_len=session.committed_len,
            expansions=tuple(session.pending),
            is_exhausted=is_exhausted,
            spans=tuple(session.spans),
        )
        session.pending.clear()
        session.pending_reach = 0.0
        session.spans.clear()
        return [ToVerifier(session.peer, grow)]

    def _push_reach(self, session: DraftSession) -> float:
        """Beside a long step a message costs little, and what it brings comes sooner."""
        if self.cost is None:
            return session.limits.push_reach
        step_s = max(self.cost.forward_s(ForwardSize(1, session.committed_len)), _MESSAGE_S)
        return session.limits.push_reach * _MESSAGE_S / step_s

    def _drop(self, key: SessionKey, *, may_keep: bool = True) -> list[Output]:
        session = self.sessions.pop(key, None)
        if session is None:
            return []
        session.is_gone = True
        slots, salt = session.tree.slots, session.opening.cache_salt
        if salt is None or not may_keep:
            self.pool.close(session.kv_id)
            return [DraftOver(session.kv_id), ReleaseDraftKv(session.kv_id)]
        released = self.pool.retire(
            session.kv_id,
            session.token_ids,
            slots.num_settled,
            salt=salt,
            num_used=slots.high_water,
        )
        return [DraftOver(session.kv_id), *(ReleaseDraftKv(each) for each in released)]

    def _publish(self, session: DraftSession) -> None:
        """The prompt is in the KV: others may begin with it."""
        salt = session.opening.cache_salt
        if session.tree.uncovered or session.is_published or salt is None:
            return
        session.is_published = True
        num_settled = session.tree.slots.num_settled
        self.pool.publish(session.kv_id, session.token_ids, num_settled, salt=salt)

    def _make_room(self, session: DraftSession) -> list[Output]:
        """Slots for the text as it stands and a full tree; the newest sessions go for them."""
        outputs: list[Output] = []
        text_len = min(session.committed_len, self.limits.context_len)
        wanted = text_len + session.limits.max_nodes
        while session.tree.slots.capacity < wanted and not session.is_gone:
            evicted = self.pool.grow(session.kv_id, wanted)
            if evicted is None:
                outputs += self._drop_newest()
            else:
                outputs += [ReleaseDraftKv(each) for each in evicted]
                session.tree.slots.resize(self.pool.held_by(session.kv_id))
        return outputs

    def _drop_newest(self) -> list[Output]:
        """Drafting for the newest session ends; its verifier may ask again."""
        self.num_dropped += 1
        (peer, session_id), newest = next(reversed(self.sessions.items()))
        notice = refusal(
            newest.opening, peer, "NoCapacity", "older sessions need the drafter's KV slots"
        )
        return [*self._drop((peer, session_id)), notice]
