"""One session on the verifier: its committed text, its KV slots and its map of expansions.

    text     t0 t1 t2 ... t(n-2) t(n-1)
    KV       ── slots 0 .. n-2 ───┘  │      kv_len = n - 1 at every round boundary
    root                             └──    the newest token is the root of the next tree

Until the KV reaches the root the session prefills, in chunks; then each round verifies a tree,
which may be the bare root (plain decoding). The last chunk and the first root may share a round:
rows of text come before those of the tree. Rejected nodes leave by their slots; accepted ones of
the tree's best chain lie where the text needs them, others are moved before the next rows run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ssd.core.drafter_kind import TRAITS, DrafterKind, DrafterState, bits_of
from ssd.core.expansion import Expansion
from ssd.core.expansion_map import ExpansionMap
from ssd.core.ids import KvId, PrefixKey, SlotSet
from ssd.core.keys import extend_key, key_of
from ssd.core.ledger import LedgerEntry
from ssd.core.messages import FinishReason, Grow, Open
from ssd.core.mode import Mode
from ssd.core.ngram import as_point_mass
from ssd.core.own_drafters import OwnDrafting
from ssd.core.read_off import PlannedTree, Soil
from ssd.core.rounds import Lookup, ShadowRound
from ssd.core.rows import RowGroup
from ssd.core.shadow import Shadow
from ssd.core.slots import SlotLedger
from ssd.core.source_rates import SourceRates
from ssd.core.speculation_control import SessionControl, Spending, StateChange
from ssd.core.tree import ROOT, TokenTree, emitted_token_ids, walk

_MODELS = bits_of(kind for kind, traits in TRAITS.items() if traits.has_weights)


@dataclass(frozen=True, slots=True)
class Settled:
    """What a verification brought to one session."""

    token_ids: tuple[int, ...]
    base_key: PrefixKey
    num_accepted: int
    num_tested: int
    lookup: Lookup
    finish_reason: FinishReason | None
    nodes_of: dict[DrafterKind, tuple[int, int]] = field(default_factory=dict)
    """How many nodes each kind of drafter named, and how many of them were accepted."""
    shadow: ShadowRound | None = None


class VerifierSession:
    """Owns what is committed; every method leaves `check()` true."""

    def __init__(
        self,
        opening: Open,
        *,
        owner: str,
        kv_id: KvId,
        num_slots: int,
        num_cached: int = 0,
        own: OwnDrafting | None = None,
    ) -> None:
        """`num_cached` tokens of the text have their KV already; `own` is how the session drafts
        for itself, and what it makes of its drafters."""
        self.opening = opening
        self.kv_id = kv_id
        self.owner = owner
        self.token_ids = list(opening.token_ids)
        self.key = key_of(opening.token_ids)
        self.expansions = ExpansionMap(keep_first=not opening.params.is_coupled)
        self.slots = SlotLedger(num_slots, num_committed=num_cached)
        self.num_cached = num_cached
        self.undrafted_at = 0  # the round since when there is no room for its drafts
        self.drafters: dict[str, DrafterKind] = {}  # those that should hold the session
        self.missing_at: set[str] = set()  # those of them whose last ledger left it out
        self.is_unheard = False  # waited for in vain; nothing came since
        self.last_round = 0
        self.is_paused = False  # its coordinator is away
        self.is_suspect = False  # a forward with its rows failed; it runs alone until one does not
        self.num_failures = 0  # forwards that failed with its rows alone
        # Of each kind of drafter: it has nothing more for the text of this length.
        self._exhausted_lens: dict[DrafterKind, int] = {}
        self.own_drafts: tuple[Expansion, ...] = ()  # what the n-gram drafter said last
        own = own or OwnDrafting()
        self._ngram, self.control = own.ngram, SessionControl(own.limits)
        if self._ngram is not None:
            self.control.meet(DrafterKind.NGRAM)
        self._draft_here(opening.token_ids)
        self.shadow = Shadow() if opening.mode is Mode.SHADOW else None

    @property
    def committed_len(self) -> int:
        return len(self.token_ids)

    @property
    def kv_len(self) -> int:
        return self.slots.num_committed

    @property
    def is_prefilling(self) -> bool:
        return self.kv_len < self.committed_len - 1

    @property
    def draft_room(self) -> int:
        """How many drafted tokens could still be accepted; the bonus token needs a place too."""
        return self.opening.speculation.depth(self.opening.max_len - self.committed_len - 1)

    @property
    def may_be_drafted(self) -> bool:
        return self.opening.mode is not Mode.AR and not self.undrafted_at

    @property
    def is_drafted(self) -> bool:
        return bool(self.drafters)

    @property
    def has_drafts(self) -> bool:
        """Whether anything drafts for it, a drafter or the session itself."""
        return self.is_drafted or self._ngram is not None

    @property
    def expects_growth(self) -> bool:
        """Whether the drafter may still send something for the text as it stands."""
        return bool(self._awaited) and not self.is_unheard

    @property
    def _awaited(self) -> int:
        """The kinds of drafters that may still send something for the text as it stands, as
        bits."""
        return bits_of(self._awaited_kinds)

    @property
    def _awaited_kinds(self) -> list[DrafterKind]:
        length, lens, states = self.committed_len, self._exhausted_lens, self.control.states
        return [
            kind
            for kind in self.drafters.values()
            if lens.get(kind, 0) < length and states.get(kind) is not DrafterState.PROBED
        ]

    def first_rate(self, rates: SourceRates) -> float:
        """How often the first candidate of the best of the drafters to wait for comes true."""
        kinds = self._awaited_kinds
        return max((self.control.first_rate(kind, rates) for kind in kinds), default=0.0)

    def grew(self, message: Grow, kind: DrafterKind) -> None:
        """A drafter was heard."""
        self.is_unheard = False
        if message.is_exhausted:
            known = self._exhausted_lens.get(kind, 0)
            self._exhausted_lens[kind] = max(known, message.base_len)

    def drafter_joined(self, drafter_id: str, kind: DrafterKind) -> None:
        """A drafter is sent the session as it stands."""
        self.drafters[drafter_id] = kind
        self.control.meet(kind)
        self.missing_at.discard(drafter_id)
        self._exhausted_lens.pop(kind, None)
        self.is_unheard = False

    def drafter_left(self, drafter_id: str) -> None:
        self.drafters.pop(drafter_id, None)
        self.missing_at.discard(drafter_id)

    def ledger_entry(self) -> LedgerEntry:
        return LedgerEntry(
            self.opening.session_id,
            self.opening.epoch,
            self.committed_len,
            self.key,
            self.kv_len,
            self.last_round,
            self.is_paused,
        )

    def merge(self, expansion: Expansion, kind: DrafterKind | None = None) -> bool:
        """Take what a drafter expects, of this kind or as it says, unless the text has passed
        it."""
        if expansion.position < self.committed_len:
            return False
        self.expansions.merge(expansion if kind is None else expansion.said_by(kind))
        return True

    @property
    def wants_prompt_logprobs(self) -> bool:
        """Whether every row of the prompt has to be run: no part may come from elsewhere."""
        opening = self.opening
        is_new = len(opening.token_ids) == opening.prompt_len
        return is_new and opening.logprobs.prompt_top is not None

    def prefill_rows(self, max_rows: int) -> RowGroup:
        """The next chunk of text without KV, as a chain; its logits serve prompt logprobs alone."""
        start = self.kv_len
        end = min(start + max_rows, self.committed_len - 1)
        slots = tuple(self.slots.take_run(end - start))
        return RowGroup(
            kv_id=self.kv_id,
            token_ids=tuple(self.token_ids[start:end]),
            positions=slots,
            past_len=start,
            slots=slots,
            visible=_chain(end - start),
            wanted=tuple(range(end - start)) if self.wants_prompt_logprobs else (),
            moves=self.slots.take_moves(),
            held=self.slots.capacity,
        )

    def prefilled(self, rows: RowGroup) -> None:
        """The chunk ran; its slots hold committed text."""
        self.slots.commit_run(len(rows.slots))
        self._draft_here(())

    def soil(self, rates: SourceRates, *, max_nodes: int) -> Soil:
        """Where this round's tree may grow; without a drafter nothing does."""
        is_joined = self._ngram is not None or len(self.drafters) > 1
        return Soil(
            root_token_id=self.token_ids[-1],
            cursor=self.key,
            expansions=self.expansions,
            weigh=lambda expansion: self.control.weights(expansion, rates),
            max_nodes=min(self.opening.speculation.nodes(max_nodes), self.slots.num_free - 1),
            max_depth=self.draft_room,
            awaited=self._awaited & _MODELS if is_joined else 0,
        )

    def shadow_soil(self, rates: SourceRates, *, max_nodes: int) -> Soil:
        """Where the tree would grow that mode `shadow` does not verify."""
        assert self.shadow is not None
        soil = self.soil(rates, max_nodes=max_nodes)
        return replace(soil, expansions=self.shadow.source(self.expansions))

    def tree_rows(self, tree: TokenTree) -> RowGroup:
        """The rows of a tree to verify, after the text that has no KV yet; the logits of every node
        are wanted."""
        past_len = self.kv_len
        text = self.slots.take_run(self.committed_len - 1 - past_len)
        slots = [0] * tree.num_nodes
        for node in tree.best_chain_first():
            slots[node] = self.slots.take()
        visible, positions = [SlotSet((2 << len(text)) - 1)], [text.stop]
        for node, parent in enumerate(tree.parents[1:], start=1):
            visible.append(SlotSet(visible[parent] | 1 << slots[node] - past_len))
            positions.append(positions[parent] + 1)
        return RowGroup(
            kv_id=self.kv_id,
            token_ids=(*self.token_ids[text.start : text.stop], *tree.token_ids),
            positions=(*text, *positions),
            past_len=past_len,
            slots=(*text, *slots),
            visible=(*_chain(len(text)), *visible),
            wanted=tuple(range(len(text), len(text) + tree.num_nodes)),
            moves=self.slots.take_moves(),
            held=self.slots.capacity,
        )

    def settle(
        self,
        planned: PlannedTree,
        rows: RowGroup,
        target_token_ids: Sequence[int],
        rates: SourceRates,
    ) -> Settled:
        """Walk the tree with the target's tokens; commit what they say, free everything else."""
        outcome = walk(planned.tree, target_token_ids)
        base_key = self.key
        emitted, reason = self._cut(emitted_token_ids(planned.tree, outcome))
        num_accepted = min(len(outcome.path), len(emitted))
        tree_slots = [rows.slots[row] for row in rows.wanted]
        self.slots.commit_run(len(rows.slots) - len(tree_slots))
        kept = (ROOT, *outcome.path[:num_accepted])[: len(emitted)]
        self._settle_slots(tree_slots, [tree_slots[node] for node in kept])
        last_seen = self._advance(emitted, rates)
        self._draft_here(emitted)
        shadow = self._in_shadow(emitted[0], base_key, is_last=reason is not None)
        lookup = Lookup.LAST if reason is not None else self._lookup(emitted[-1], last_seen)
        num_tested = sum(
            node in planned.tree.parents[1:] for node in (ROOT, *outcome.path)[: len(emitted)]
        )
        self.expansions.forget_below(self.committed_len)
        nodes_of = planned.nodes_of(outcome.path[:num_accepted])
        return Settled(
            emitted, base_key, num_accepted, num_tested, lookup, reason, nodes_of, shadow
        )

    def judge(self, settled: Settled, *, row_price: float, wait_price: float) -> list[StateChange]:
        """What the session makes of its drafters after a round, whose prices are in tokens.

        Mode `sd` is for comparison and drafts whatever it costs.
        """
        if self.opening.mode is not Mode.SSD:
            return []
        self.control.round_over(
            Spending(
                kind,
                num_proposed,
                num_accepted,
                num_proposed * row_price + wait_price * TRAITS[kind].has_weights,
            )
            for kind, state in self.control.states.items()
            if state is not DrafterState.PAUSED
            for num_proposed, num_accepted in [settled.nodes_of.get(kind, (0, 0))]
        )
        return self.control.decide()

    def check(self) -> None:
        """The invariants of a round boundary."""
        self.slots.check()
        self.expansions.check()
        assert not self.slots.num_live, f"tree slots still taken: {self.slots.live:#x}"
        assert self.kv_len <= self.committed_len - 1, (
            f"{self.kv_len} KV rows of {self.committed_len}"
        )
        assert self.key == key_of(self.token_ids)

    def _cut(self, token_ids: Sequence[int]) -> tuple[tuple[int, ...], FinishReason | None]:
        """End at the first stop token or at the length limit, whichever comes first in the text."""
        room = self.opening.max_len - self.committed_len
        for index, token_id in enumerate(token_ids[:room]):
            if token_id in self.opening.stop_token_ids:
                return tuple(token_ids[: index + 1]), FinishReason.STOP
        reason = FinishReason.LENGTH if len(token_ids) >= room else None
        return tuple(token_ids[:room]), reason

    def abandon(self, rows: RowGroup) -> None:
        """The rows' forward failed: nothing of it stays."""
        self._settle_slots(rows.slots, [])
        if rows.moves:  # made or not: nobody knows, so that part of the text is run again
            self.slots.forget_from(min(target for _, target in rows.moves))

    def _settle_slots(self, slots: Sequence[int], kept: Sequence[int]) -> None:
        """Of slots that rows took, keep those of the root and of accepted nodes that precede the
        newest token."""
        self.slots.drop(set(slots).difference(kept))
        for slot in kept:
            displaced_to = self.slots.commit(slot)
            assert displaced_to is None, "a path's slots ascend: nothing lies in their way"

    def _advance(self, emitted: Sequence[int], rates: SourceRates) -> Expansion | None:
        """Append the tokens, learn from each expansion passed; the one below the last node."""
        expansion = None
        for token_id in emitted:
            expansion = self.expansions.get(self.key)
            if expansion is not None:
                self.control.saw(expansion, token_id, rates)
                rates.record(expansion, token_id)
            self.token_ids.append(token_id)
            self.key = extend_key(self.key, token_id)
        return expansion

    def _draft_here(self, token_ids: Sequence[int]) -> None:
        """The text went on: the session's own drafter hears of it and says what may come next.

        A prompt that was not remembered in one go is so bit by bit, round by round.
        """
        if self._ngram is None:
            return
        self._ngram.extend(token_ids)
        self.own_drafts = ()
        if self.is_prefilling or self.control.is_paused(DrafterKind.NGRAM):
            return
        found = self._ngram.grow(max_depth=self.draft_room)
        if not self.opening.params.is_coupled:
            found = tuple(as_point_mass(each) for each in found)
        for expansion in found:
            self.expansions.merge(expansion)
        self.own_drafts = found

    def _in_shadow(
        self, token_id: int, base_key: PrefixKey, *, is_last: bool
    ) -> ShadowRound | None:
        """What the round's only token means for the drafts that nobody verifies."""
        if self.shadow is None:
            return None
        return self.shadow.drawn(
            token_id,
            cursor=base_key,
            expansions=self.expansions,
            own_drafts=self.own_drafts,
            is_drafted=self.has_drafts,
            is_last=is_last,
        )

    def _lookup(self, bonus_token_id: int, last_seen: Expansion | None) -> Lookup:
        if self.shadow is not None:
            return Lookup.MISS_ABSENT  # as in plain decoding: no round could use what is there
        if self.expansions.get(self.key) is not None:
            return Lookup.HIT
        if not self.has_drafts:
            return Lookup.MISS_ABSENT
        if last_seen is not None and bonus_token_id not in last_seen.token_ids:
            return Lookup.MISS_KEY
        return Lookup.MISS_LATE


def _chain(num_rows: int) -> tuple[SlotSet, ...]:
    """What rows of text see beside the text before the first."""
    return tuple(SlotSet((2 << row) - 1) for row in range(num_rows))
