"""The verifier's state machine: sessions and drafts come in, rounds to run and commits go out.

The shell feeds events (`open`, `resume`, `close`, `grow`, `drafter_attached`, `drafter_lost`, ...)
and passes on the outputs each returns. Whenever the device is free it asks `next_action(now)`: a
`Round` to run, after which it calls `round_done`, or an `Idle` until a time or the next event.

There is one path: a session without drafts verifies the bare root, which is plain decoding; a lost
drafter, a late message or mode `ar` are that case. A draft that arrives for a departed session, an
older epoch or a passed text is stale: counted and dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ssd.core.cost_model import CostModel, ForwardSize
from ssd.core.edge_rates import EdgeRates
from ssd.core.errors import (
    EngineBroken,
    InvalidRequest,
    NoCapacity,
    Poisoned,
    Preempted,
    SsdError,
    UnknownSession,
)
from ssd.core.expansion import Expansion
from ssd.core.ids import Epoch, KvId, SessionId
from ssd.core.keys import key_of
from ssd.core.kv_pool import BLOCK_SLOTS
from ssd.core.launch import DrafterPace, Patience
from ssd.core.ledger import Ledger, LedgerEntry
from ssd.core.logprobs import LogprobsWanted
from ssd.core.messages import Close, Commit, Finished, Grow, Need, Open, Rates, Refused, Resume
from ssd.core.mode import Mode
from ssd.core.price import Price
from ssd.core.read_off import PlannedTree, read_off
from ssd.core.rounds import GrowthSpan, RoundRecord, WhyPlain
from ssd.core.rows import RowGroup
from ssd.core.rule import Rule
from ssd.core.sampling_params import check_something_is_left
from ssd.core.verifier_room import RoomMade, VerifierRoom
from ssd.core.verifier_session import Settled, VerifierSession

_EPOCHS_REMEMBERED = 4096
_FAILURES_OF_A_POISONED = 3
_POISONED_OF_A_BROKEN_ENGINE = 3
_RATES_EVERY_S = 1.0
_GOOD_ENOUGH = 0.5  # measured on two cores: as fast as 0.6 with deeper trees; at 0.4 less overlaps


@dataclass(frozen=True, slots=True)
class VerifierLimits:
    """What one verifier can hold and do at once.

    `max_nodes` bounds a session's tree, `max_rows` a forward, `kv_slots` the KV of all sessions,
    handed out `kv_block` at a time.
    Every session has a row in every round and prefill has half of them, so `max_sessions` follows.
    `sd_depth` is the length of the chain that mode `sd` waits for, `sd_patience_s` for how long.
    """

    vocab_size: int
    context_len: int
    kv_slots: int
    max_nodes: int = 8
    max_rows: int = 256
    sd_depth: int = 4
    sd_patience_s: float = 1.0
    kv_block: int = BLOCK_SLOTS

    @property
    def tree_slots(self) -> int:
        """Of the largest tree, its root among them."""
        return max(self.max_nodes, self.sd_depth) + 1

    @property
    def max_sessions(self) -> int:
        return max(self.max_rows // 2, 1)


@dataclass(frozen=True, slots=True)
class ToCoordinator:
    """A message for the coordinator that opened the session."""

    owner: str
    message: Commit | Finished | Refused


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
    """A text begins with the first slots of another."""

    source: KvId
    target: KvId
    num_slots: int


@dataclass(frozen=True, slots=True)
class SessionOver:
    """Nothing of the session runs here any more."""

    session_id: SessionId


Output = ToCoordinator | ToDrafter | ReleaseKv | CopyKv | SessionOver


@dataclass(frozen=True, slots=True)
class Share:
    """One session's rows in a round: a tree to verify, or a prefill chunk (tree None)."""

    session: VerifierSession
    rows: RowGroup
    planned: PlannedTree | None


@dataclass(frozen=True, slots=True)
class Round:
    """One forward. The shell runs `groups` and answers with the target's token per wanted row."""

    round_id: int
    shares: tuple[Share, ...]
    ready_s: float

    @property
    def groups(self) -> tuple[RowGroup, ...]:
        return tuple(share.rows for share in self.shares)

    @property
    def num_rows(self) -> int:
        return sum(len(share.rows.token_ids) for share in self.shares)


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to run before `until` (None: before the next event)."""

    until: float | None


class Verifier:
    """Owns all sessions of one target model. Times are seconds of one monotonic clock."""

    def __init__(self, limits: VerifierLimits, cost: CostModel) -> None:
        self.limits = limits
        self.cost = cost
        self.price = Price(plain_round_s=cost.forward_s(1))
        self.rates, self.ratio_rates = EdgeRates(), EdgeRates()
        self.sessions: dict[SessionId, VerifierSession] = {}
        self.drafters: set[str] = set()
        self.num_rounds = 0
        self.num_stale = 0
        self._num_poisoned_in_a_row = 0
        self.room = VerifierRoom(
            limits.kv_slots, tree_slots=limits.tree_slots, block_slots=limits.kv_block
        )
        self._num_opened = 0
        self._epochs: dict[SessionId, Epoch] = {}  # the newest seen, of the last sessions
        self._growth: dict[SessionId, list[GrowthSpan]] = {}
        self._pace = DrafterPace()
        self._patience = Patience(self._pace)
        self._rates_sent_s = 0.0
        self._ready_s: float | None = None  # since when a round could have been launched

    # ── events ────────────────────────────────────────────────────────────────────────────────

    def open(self, opening: Open, *, owner: str) -> list[Output]:
        """Start or restart a session; an epoch that is not newer is refused, a repeat ignored."""
        standing = self.sessions.get(opening.session_id)
        if standing is not None and (standing.opening, standing.owner) == (opening, owner):
            self.num_stale += 1
            return []
        outputs: list[Output] = []
        try:
            self._check_opening(opening)
            outputs += self._drop(opening.session_id)
            session, begun = self._admit(opening, owner)
        except SsdError as error:
            kind = type(error).__name__
            refusal = Refused(opening.session_id, opening.epoch, kind, str(error))
            return [*outputs, ToCoordinator(owner, refusal)]
        outputs += begun
        return outputs + self._offer(session)

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

    def drafter_attached(self, drafter_id: str) -> list[Output]:
        """A drafter joins and gets every session it may draft for, as the text stands."""
        self.drafters.add(drafter_id)
        wanting = [
            session
            for session in self.sessions.values()
            if session.opening.mode is not Mode.AR
            and (session.opening.params.is_coupled or not session.drafters)
        ]
        for session in wanting:
            session.drafter_joined(drafter_id)
        return [ToDrafter(self._opening_as_it_stands(each), drafter_id) for each in wanting]

    def drafter_lost(self, drafter_id: str) -> list[Output]:
        """A drafter is gone; what it sent stays useful, nothing more is waited for."""
        self.drafters.discard(drafter_id)
        orphans = []
        for session in self.sessions.values():
            if drafter_id in session.drafters and not session.opening.params.is_coupled:
                orphans.append(session)
            session.drafter_left(drafter_id)
        if not self.drafters:
            return []
        for session in orphans:
            session.drafter_joined(*self._one_drafter())
        return [
            ToDrafter(self._opening_as_it_stands(each), _only_drafter(each)) for each in orphans
        ]

    def drafter_ledger(self, ledger: Ledger, *, drafter_id: str) -> list[Output]:
        """Open anew what a drafter should hold and does not, close what it should not: an order to
        it was lost.

        An opening may still be on its way when a ledger is made, so the first that leaves a session
        out proves nothing; the second does, or costs a little speed.
        """
        held = {(each.session_id, each.epoch) for each in ledger.entries}
        outputs: list[Output] = []
        for session in self.sessions.values():
            opening = session.opening
            if drafter_id not in session.drafters:
                continue
            if (opening.session_id, opening.epoch) in held:
                session.missing_at.discard(drafter_id)
            elif drafter_id in session.missing_at:
                session.drafter_joined(drafter_id)
                outputs.append(ToDrafter(self._opening_as_it_stands(session), drafter_id))
            else:
                session.missing_at.add(drafter_id)
        return outputs + [
            ToDrafter(Close(session_id, epoch), drafter_id)
            for session_id, epoch in held
            if session_id not in self.sessions
        ]

    def ledger(self, owner: str) -> tuple[LedgerEntry, ...]:
        """What is held for one coordinator."""
        return tuple(each.ledger_entry() for each in self.sessions.values() if each.owner == owner)

    def grow(self, message: Grow, *, now: float) -> list[Output]:
        """Take a drafter's expansions into the session's map."""
        self._patience.arrived(now)
        session = self._current(message.session_id, message.epoch)
        if session is None:
            return []
        if session.opening.mode is Mode.AR:
            self.num_stale += 1
            return []
        for expansion in message.expansions:
            makes_sense = self._makes_sense(expansion, session.opening)
            if not makes_sense or not session.merge(expansion):
                self.num_stale += 1
        session.is_unheard = False
        if message.is_exhausted:
            session.exhausted_len = max(session.exhausted_len, message.base_len)
        self._growth[message.session_id].extend(message.spans)
        self._pace.grew(message.spans)
        return []

    def drafter_refused(self, message: Refused, *, drafter_id: str) -> list[Output]:
        """A drafter has no room for a session: without another it goes on as plain decoding."""
        session = self._current(message.session_id, message.epoch)
        if session is not None:
            session.drafter_left(drafter_id)
            if message.kind == NoCapacity.__name__ and not session.is_drafted:
                session.undrafted_at = max(self.num_rounds, 1)  # and offered again in a while
        return []

    def need(self, message: Need, *, drafter_id: str) -> list[Output]:
        """A drafter lost its place; it gets the committed text again."""
        session = self._current(message.session_id, message.epoch)
        if session is None:
            return []
        return [ToDrafter(self._opening_as_it_stands(session), drafter_id)]

    # ── work ──────────────────────────────────────────────────────────────────────────────────

    def next_action(self, now: float) -> Round | Idle:
        """The next forward, unless there is nothing to do or waiting for drafts pays."""
        if not self.has_work:
            self._ready_s = None
            return Idle(None)
        if self._ready_s is None:
            self._ready_s = now
        running = self._next_runners()
        decoding = [each for each in running if not each.is_prefilling]
        planned = self._plan(decoding)
        if len(decoding) == len(running):  # a queued prefill chunk never waits for drafts
            until = self._wait_until(planned, now)
            if until is not None:
                return Idle(until)
        return self._launch(planned, running)

    def round_failed(self, failed: Round) -> list[Output]:
        """A forward raised an error: find the session that makes it fail, and let go of that one.

        All sessions of the round run alone until a forward of theirs succeeds, so each further
        failure has one culprit; after three of them it is refused, and the others go on.

        Raises:
            EngineBroken: session after session fails alone, so it is none of theirs doing.
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
            rates = self._rates_of(share.session)
            settled = share.session.settle(share.planned, share.rows, target, rates)
            num_tokens += len(settled.token_ids)
            record = _record(done, share, settled, launch_s, end_s)
            outputs += self._announce(share.session, settled, record)
        outputs += self._make_room(done.round_id)
        self.cost.observe(ForwardSize.of(done.groups), end_s - launch_s)
        if num_tokens:
            self.price.observe(num_tokens, end_s - done.ready_s)
        self._ready_s = end_s
        return outputs + self._share_rates(end_s)

    def check(self) -> None:
        """All invariants of a round boundary."""
        for session in self.sessions.values():
            session.check()
        self.room.check(list(self.sessions.values()))
        assert self.num_reserved_slots <= self.limits.kv_slots
        assert self._growth.keys() == self.sessions.keys()

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
        self._remember_epoch(opening)
        outputs: list[Output] = [ReleaseKv(each) for each in beginning.evicted]
        if beginning.prefix is not None:
            outputs.append(CopyKv(beginning.prefix.kv_id, kv_id, beginning.prefix.length))
        session = VerifierSession(
            opening,
            owner=owner,
            kv_id=kv_id,
            num_slots=self.room.pool.held_by(kv_id),
            num_cached=beginning.num_cached,
        )
        self.sessions[opening.session_id] = session
        self._growth[opening.session_id] = []
        return session, outputs

    def _make_room(self, round_id: int) -> list[Output]:
        """See to it that every session has slots for its next round."""
        made: RoomMade = self.room.make(list(self.sessions.values()), round_id=round_id)
        outputs: list[Output] = [ReleaseKv(each) for each in made.evicted]
        for session in made.undrafted:
            if session.is_drafted:
                close = Close(session.opening.session_id, session.opening.epoch)
                outputs.append(ToDrafter(close, _only_drafter(session)))
            for drafter_id in list(session.drafters):
                session.drafter_left(drafter_id)
        for session in made.offered:
            outputs += self._offer(session)
        for session in made.preempted:
            session_id, epoch = session.opening.session_id, session.opening.epoch
            outputs += self._forget(session)
            words = "older sessions need its KV slots"
            refusal = Refused(session_id, epoch, Preempted.__name__, words)
            outputs.append(ToCoordinator(session.owner, refusal))
        return outputs

    def _offer(self, session: VerifierSession) -> list[Output]:
        """Let all drafters draft for a session, as its text stands."""
        if not self.drafters or session.opening.mode is Mode.AR:
            return []
        drafters = self.drafters if session.opening.params.is_coupled else self._one_drafter()
        for drafter_id in drafters:
            session.drafter_joined(drafter_id)
        return [ToDrafter(self._opening_as_it_stands(session), _only_drafter(session))]

    def _makes_sense(self, expansion: Expansion, opening: Open) -> bool:
        """Whether a drafter's tokens are in the vocabulary and its estimates are probabilities."""
        vocab_size = self.limits.vocab_size
        return (
            all(0 <= each < vocab_size for each in expansion.token_ids)
            and all(0.0 <= each <= 1.0 for each in expansion.estimates)
            and (opening.params.is_coupled or expansion.is_sampled(vocab_size=vocab_size))
        )

    def _one_drafter(self) -> tuple[str]:
        """The drafter of a session under rule `ratio`; sessions take turns."""
        return (sorted(self.drafters)[len(self.sessions) % len(self.drafters)],)

    def _rates_of(self, session: VerifierSession) -> EdgeRates:
        return self.rates if session.opening.params.is_coupled else self.ratio_rates

    def _check_opening(self, opening: Open) -> None:
        standing = self.sessions.get(opening.session_id)
        newest = standing.opening.epoch if standing else self._epochs.get(opening.session_id)
        if newest is not None and newest >= opening.epoch:
            raise InvalidRequest(
                f"epoch {opening.epoch} of session {opening.session_id} is not newer than {newest}"
            )
        if not 0 < len(opening.token_ids) < opening.max_len <= self.limits.context_len:
            raise InvalidRequest(
                f"{len(opening.token_ids)} tokens and a limit of {opening.max_len} do not fit a "
                f"context of {self.limits.context_len}"
            )
        bad = [each for each in opening.token_ids if not 0 <= each < self.limits.vocab_size]
        if bad:
            raise InvalidRequest(
                f"token id {bad[0]} is outside the vocabulary of {self.limits.vocab_size}"
            )
        check_something_is_left(opening.params, vocab_size=self.limits.vocab_size)

    def _remember_epoch(self, opening: Open) -> None:
        self._epochs.pop(opening.session_id, None)
        self._epochs[opening.session_id] = opening.epoch
        if len(self._epochs) > _EPOCHS_REMEMBERED:
            self._epochs.pop(next(iter(self._epochs)))

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
        outputs: list[Output] = [SessionOver(session_id)]
        if self.drafters and session.opening.mode is not Mode.AR:
            close = Close(session_id, session.opening.epoch)
            outputs.append(ToDrafter(close, _only_drafter(session)))
        return outputs

    def _current(self, session_id: SessionId, epoch: Epoch) -> VerifierSession | None:
        session = self.sessions.get(session_id)
        if session is None or session.opening.epoch != epoch:
            self.num_stale += 1
            return None
        return session

    def _opening_as_it_stands(self, session: VerifierSession) -> Open:
        return replace(session.opening, token_ids=tuple(session.token_ids))

    def _plan(
        self, sessions: Sequence[VerifierSession]
    ) -> list[tuple[VerifierSession, PlannedTree]]:
        """A tree for each session: the whole chain in mode `sd`, else what is worth its rows."""
        chains = [each for each in sessions if each.opening.mode is Mode.SD]
        trees = [each for each in sessions if each.opening.mode is not Mode.SD]
        floor = self.price.tokens_per_s * self._row_s(sessions)
        room = max(self._tree_budget() - len(sessions), 0)
        chain_soils = [
            each.soil(self._rates_of(each), max_nodes=self.limits.sd_depth) for each in chains
        ]
        planned = read_off(chain_soils, max_nodes=room, is_worth=lambda reach: True)
        room -= sum(each.tree.num_nodes - 1 for each in planned)
        tree_soils = [
            each.soil(self._rates_of(each), max_nodes=self.limits.max_nodes) for each in trees
        ]
        planned += read_off(tree_soils, max_nodes=room, is_worth=lambda reach: reach >= floor)
        return list(zip((*chains, *trees), planned, strict=True))

    def _row_s(self, sessions: Sequence[VerifierSession]) -> float:
        """Seconds of one more row above the roots, over a text of middling length."""
        if not sessions:
            return 0.0
        pairs = sum(each.committed_len for each in sessions)
        roots = ForwardSize(len(sessions), pairs)
        return self.cost.row_s(roots, length=pairs // len(sessions))

    def _tree_budget(self) -> int:
        """Rows for roots and trees; half the budget is kept for prefill while any is queued."""
        is_prefilling = any(session.is_prefilling for session in self._running)
        return self.limits.max_rows // 2 if is_prefilling else self.limits.max_rows

    def _wait_until(
        self, planned: Sequence[tuple[VerifierSession, PlannedTree]], now: float
    ) -> float | None:
        until = self._wait_for_chains(planned, now)
        if until is not None:
            return until
        promise = sum(
            tree.open_reach
            for session, tree in planned
            if session.opening.mode is Mode.SSD and session.expects_growth
        )
        # A round launched now may earn more than rounds did lately, and waiting must beat both: a
        # verifier that waited too long would otherwise find waiting cheap for ever. It need not
        # beat them in full, because a round also costs messages, on the drafter's core if need be.
        sizes = [(tree.tree.num_nodes, session.committed_len) for session, tree in planned]
        size = ForwardSize(sum(rows for rows, _ in sizes), sum(rows * len_ for rows, len_ in sizes))
        at_once = sum(1.0 + tree.reach for _, tree in planned) / self.cost.forward_s(size)
        price = _GOOD_ENOUGH * max(self.price.tokens_per_s, at_once)
        return self._patience.wait_until(now, promise=promise, tokens_per_s=price)

    def _wait_for_chains(
        self, planned: Sequence[tuple[VerifierSession, PlannedTree]], now: float
    ) -> float | None:
        """Mode `sd` waits, in lock-step, until every chain has its depth or the drafter is done."""
        unfinished = [
            session
            for session, tree in planned
            if session.opening.mode is Mode.SD
            and session.expects_growth
            and tree.depth < min(self.limits.sd_depth, session.draft_room)
        ]
        ready_s = now if self._ready_s is None else self._ready_s
        deadline = ready_s + self.limits.sd_patience_s
        if now < deadline:
            return deadline if unfinished else None
        for session in unfinished:  # a lost message costs one wait, not one in every round
            session.is_unheard = True
        return None

    def _next_runners(self) -> list[VerifierSession]:
        """The sessions of the next round: all, or after a failed forward one of its alone."""
        running = self._running
        suspects = [session for session in running if session.is_suspect]
        return suspects[:1] or running

    def _give_up(self, session: VerifierSession) -> list[Output]:
        """Refuse a session that makes forwards fail."""
        self._num_poisoned_in_a_row += 1
        if self._num_poisoned_in_a_row >= _POISONED_OF_A_BROKEN_ENGINE:
            raise EngineBroken(
                f"forwards failed for {self._num_poisoned_in_a_row} sessions alone, one by one"
            )
        opening = session.opening
        words = f"the engine failed {session.num_failures} times on this request alone"
        refusal = Refused(opening.session_id, opening.epoch, Poisoned.__name__, words)
        return [ToCoordinator(session.owner, refusal), *self._drop(opening.session_id)]

    def _launch(
        self,
        planned: Sequence[tuple[VerifierSession, PlannedTree]],
        running: Sequence[VerifierSession],
    ) -> Round:
        """Pack the trees and, in what is left of the row budget, prefill chunks."""
        shares = [Share(each, each.tree_rows(plan.tree), plan) for each, plan in planned]
        room = self.limits.max_rows - sum(len(share.rows.token_ids) for share in shares)
        prefilling = [each for each in running if each.is_prefilling]
        prefilling.sort(key=lambda each: each.committed_len - each.kv_len)
        for index, session in enumerate(prefilling):  # what short texts leave, long ones take
            if room > 0:
                rows = session.prefill_rows(max(room // (len(prefilling) - index), 1))
                room -= len(rows.token_ids)
                shares.append(Share(session, rows, None))
        self.num_rounds += 1
        self._patience = Patience(self._pace)
        assert self._ready_s is not None
        return Round(self.num_rounds, tuple(shares), self._ready_s)

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
        if session.is_drafted and settled.finish_reason is None:
            outputs.append(ToDrafter(commit, _only_drafter(session)))
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
        counts: list[Output] = [_rates_message(self.rates, Rule.COUPLED)]
        if any(self.ratio_rates.tests):
            counts.append(_rates_message(self.ratio_rates, Rule.RATIO))
        return counts


def _only_drafter(session: VerifierSession) -> str | None:
    """None, all of them, except under rule `ratio`: whose draw counts must not be a race."""
    return None if session.opening.params.is_coupled else next(iter(session.drafters), None)


def _rates_message(rates: EdgeRates, rule: Rule) -> ToDrafter:
    return ToDrafter(Rates(tuple(rates.tests), tuple(rates.matches), rule))


def _record(
    done: Round, share: Share, settled: Settled, launch_s: float, end_s: float
) -> RoundRecord:
    assert share.planned is not None
    return RoundRecord(
        round_id=done.round_id,
        base_len=share.rows.positions[0] + 1,
        launch_ns=round(launch_s * 1e9),
        end_ns=round(end_s * 1e9),
        wait_ns=round((launch_s - done.ready_s) * 1e9),
        num_proposed=share.planned.tree.num_nodes - 1,
        num_accepted=settled.num_accepted,
        num_tested=settled.num_tested,
        num_batch_rows=done.num_rows,
        lookup=settled.lookup,
        verified_steps=share.planned.steps,
        tree_depth=share.planned.depth,
        why_plain=_why_plain(share),
        num_cached=share.session.num_cached,
    )


def _why_plain(share: Share) -> WhyPlain | None:
    """Why nothing was proposed, if nothing was."""
    assert share.planned is not None
    session = share.session
    if share.planned.tree.num_nodes > 1:
        return None
    if session.opening.mode is Mode.AR:
        return WhyPlain.MODE
    if not session.is_drafted:
        return WhyPlain.NO_DRAFTER
    if share.rows.positions[0] + 2 >= session.opening.max_len:
        return WhyPlain.LAST_TOKEN
    if share.planned.expansions[0] is None:
        return WhyPlain.NOT_READY
    return WhyPlain.TOO_DEAR
